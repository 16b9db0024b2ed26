"""Experiments: runs that were created or imported together."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import sqlalchemy as sa

from storage.analyses import find_analysis, insert_analysis
from storage.artifacts import ArtifactStore, has_artifact, insert_artifact
from storage.database import Database
from storage.errors import ExperimentNotFound, StorageError
from storage.metrics import PackedRounds, insert_rounds, pack_rounds
from storage.models import Event, Experiment, Run, now
from storage.records import ExperimentRecord, FinishedAnalysis, FinishedFile, FinishedRun, NewRun
from storage.run_queue import NOT_DELETED, delete_runs, insert_partition, insert_run, next_position

COLUMNS = tuple(Experiment.__table__.columns)


class Experiments:
    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def create(
        self, name: str, config: dict[str, Any], runs: Sequence[NewRun], example: bool = False, owner: str = ""
    ) -> ExperimentRecord:
        """Creates an experiment with all its runs queued, in one transaction."""
        return self.create_all([(name, config, runs)], example, owner)[0]

    def create_all(
        self, new: Sequence[tuple[str, dict[str, Any], Sequence[NewRun]]], example: bool = False, owner: str = ""
    ) -> Sequence[ExperimentRecord]:
        """Creates experiments (name, config, runs) with all their runs queued, in one transaction."""
        with self._database.write() as connection:
            ids = []
            for name, config, runs in new:
                ids.append(_insert(connection, name, config, example, owner))
                for place, run in enumerate(runs):
                    insert_run(connection, ids[-1], place if run.position is None else run.position, run)
            return _records(connection, _select().where(Experiment.id.in_(ids)).order_by(Experiment.id))

    def import_finished(
        self,
        name: str,
        config: dict[str, Any],
        runs: Iterable[FinishedRun],
        example: bool = False,
        owner: str = "",
    ) -> ExperimentRecord:
        """Imports runs that were computed elsewhere, with all their rounds. Nothing is queued.

        Each run and each file is one transaction, so that workers don't wait for hundreds of them; an error undoes the
        whole import.
        """
        with self._database.write() as connection:
            experiment_id = _insert(connection, name, config, example, owner)
        places = itertools.count()
        try:
            self._add_finished(experiment_id, runs, lambda _: next(places))
        except BaseException:
            self.delete([experiment_id])
            raise
        return self.get(experiment_id)

    def add_finished(self, experiment_id: int, runs: Iterable[FinishedRun]) -> list[int]:
        """Imports further runs of an experiment, like ``import_finished``. Returns their ids."""
        return self._add_finished(experiment_id, runs, partial(next_position, experiment_id=experiment_id))

    def _add_finished(
        self, experiment_id: int, runs: Iterable[FinishedRun], position: Callable[[sa.Connection], int]
    ) -> list[int]:
        added: list[int] = []
        try:
            for run in runs:
                packed = pack_rounds(run.rounds)
                with self._database.write() as connection:
                    run_id = _insert_finished(connection, experiment_id, position(connection), run, packed)
                added.append(run_id)
                self.add_files(run_id, run)
        except BaseException:
            with self._database.write() as connection:
                paths = delete_runs(connection, added)
            self._artifacts.remove_files(paths)
            raise
        return added

    def add_files(self, run_id: int, run: FinishedRun) -> int:
        """Stores the models and analyses that the run lacks. Returns how many.

        Each file is on disk before its row is written, outside the transaction; one without a row is deleted.
        """
        if run.models or run.analyses:
            self._artifacts.mark_folder()
        models = sum(self._add_file(run_id, model) for model in run.models)
        return models + sum(self._add_file(run_id, analysis.result, analysis) for analysis in run.analyses)

    def _add_file(self, run_id: int, file: FinishedFile, analysis: FinishedAnalysis | None = None) -> bool:
        """Stores a model, or the result of an analysis, unless another import just did. Returns whether it is new."""
        written = self._artifacts.write_file(run_id, file.kind, file.round, file.read())
        try:
            with self._database.write() as connection:
                connection.execute(sa.select(Run.id).where(Run.id == run_id).with_for_update())  # against other imports
                if is_new := _is_missing(connection, run_id, file.kind, analysis):
                    self._artifacts.refuse_swept(connection, written)
                    artifact = insert_artifact(connection, run_id, written)
                    if analysis is not None:
                        insert_analysis(connection, run_id, analysis.kind, analysis.params, artifact.id)
        except BaseException:
            with suppress(StorageError):  # the database may be gone
                self._artifacts.remove_unregistered(written)
            raise
        if not is_new:
            self._artifacts.remove_files([written.path])
        return is_new

    def list(self, include_archived: bool = False) -> list[ExperimentRecord]:
        """Experiments, newest first, without those whose runs are all in the trash."""
        own_runs = sa.select(Run.id).where(Run.experiment_id == Experiment.id)
        query = (
            _select().where(own_runs.where(NOT_DELETED).exists() | ~own_runs.exists()).order_by(Experiment.id.desc())
        )
        if not include_archived:
            query = query.where(Experiment.archived.is_(False))
        with self._database.read() as connection:
            return _records(connection, query)

    def get(self, experiment_id: int) -> ExperimentRecord:
        with self._database.read() as connection:
            found = _records(connection, _select().where(Experiment.id == experiment_id))
        if not found:
            raise ExperimentNotFound(experiment_id)
        return found[0]

    def owners(self, *, run_ids: Sequence[int] = (), experiment_ids: Sequence[int] = ()) -> set[str]:
        """The owners of these experiments, and of those of these runs, also in the trash; "" for none."""
        of_runs = sa.select(Experiment.owner).join(Run).where(Run.id.in_(run_ids))
        query = of_runs.union(sa.select(Experiment.owner).where(Experiment.id.in_(experiment_ids)))
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def rename(self, experiment_id: int, name: str) -> None:
        with self._database.write() as connection:
            renamed = sa.update(Experiment).where(Experiment.id == experiment_id).values(name=name)
            if connection.execute(renamed).rowcount == 0:
                raise ExperimentNotFound(experiment_id)

    def archive(self, ids: Sequence[int], archived: bool = True) -> None:
        """Archives experiments, which hides them with their runs, or restores them."""
        with self._database.write() as connection:
            connection.execute(sa.update(Experiment).where(Experiment.id.in_(ids)).values(archived=archived))

    def delete(self, ids: Sequence[int]) -> None:
        """Deletes experiments with all runs and files. Raises RunsActive, and deletes none, if a run is running."""
        with self._database.write() as connection:
            run_ids = connection.scalars(sa.select(Run.id).where(Run.experiment_id.in_(ids))).all()
            paths = delete_runs(connection, run_ids)
            connection.execute(sa.delete(Experiment).where(Experiment.id.in_(ids)))
        self._artifacts.remove_files(paths)


def _insert(connection: sa.Connection, name: str, config: dict[str, Any], example: bool, owner: str) -> int:
    values = {
        "name": name,
        "config": config,
        "created_at": now(),
        "archived": False,
        "example": example,
        "owner": owner,
    }
    return connection.execute(sa.insert(Experiment).values(values).returning(Experiment.id)).scalar_one()


def _insert_finished(
    connection: sa.Connection, experiment_id: int, position: int, finished: FinishedRun, packed: PackedRounds
) -> int:
    last = finished.rounds[-1].round if finished.rounds else -1
    run_id = insert_run(
        connection,
        experiment_id,
        position,
        finished.run,
        status=finished.status,
        round=last,
        finished_at=now(),
        provenance=finished.provenance,
        summary=finished.summary,
        error=finished.error,
    )
    if finished.partition is not None:
        insert_partition(connection, run_id, finished.partition)
    insert_rounds(connection, run_id, packed)
    if finished.events:
        connection.execute(sa.insert(Event), [event._asdict() | {"run_id": run_id} for event in finished.events])
    return run_id


def _is_missing(connection: sa.Connection, run_id: int, kind: str, analysis: FinishedAnalysis | None) -> bool:
    if analysis is None:
        return not has_artifact(connection, run_id, kind)
    return find_analysis(connection, run_id, analysis.kind, analysis.params) is None


def _select() -> sa.Select:
    return sa.select(*COLUMNS)


def _records(connection: sa.Connection, query: sa.Select) -> list[ExperimentRecord]:
    rows = connection.execute(query).all()
    counted = sa.select(Run.experiment_id, Run.status, sa.func.count()).where(NOT_DELETED)
    counted = counted.group_by(Run.experiment_id, Run.status)
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for experiment_id, status, count in connection.execute(counted.where(Run.experiment_id.in_([r.id for r in rows]))):
        counts[experiment_id][status] = count
    return [
        ExperimentRecord(**row._mapping, num_runs=sum(counts[row.id].values()), status_counts=counts[row.id])
        for row in rows
    ]
