"""Studies: what was chosen, and the transaction in which a study advances.

A study's state is its rows only: runs that are trials or final runs, and choices. The primary key of a choice and the
unique position of a run make each of them happen at most once, whoever is killed when.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import sqlalchemy as sa

from storage.database import Database
from storage.errors import ExperimentNotFound
from storage.metrics import arrays_at, totals
from storage.models import Choice, Experiment, Partition, Run, now
from storage.records import ChoiceRecord, NewRun, RunRecord, TrialRecord
from storage.run_queue import NOT_DELETED, insert_run, run_records, select_runs

GRADIENTS = "gradient_evaluations"


class Studies:
    def __init__(self, database: Database) -> None:
        self._database = database

    def choices(self, experiment_id: int) -> list[ChoiceRecord]:
        """The choices of a study, in the order in which they were made."""
        with self._database.read() as connection:
            return _choices(connection, experiment_id)

    def trials(self, experiment_id: int, model: str = "personalized") -> list[TrialRecord]:
        """The trials of a study with the evaluations of a model; of a repeated one the newest run."""
        with self.reading(experiment_id) as rows:
            of_study = [(run.study, run) for run in rows.runs if run.study is not None]
            newest = {
                (study_run["entry"], study_run["split"], study_run["trial"], run.seed): run
                for study_run, run in of_study
                if study_run["role"] == "trial"
            }
            return rows.measured(list(newest.values()), model)

    def open(self) -> list[int]:
        """Ids of the experiments with ``tune`` that are computed here, and not archived; oldest first."""
        return self._ids(Experiment.archived.is_(False), Experiment.example.is_(False))

    def of_runs(self, run_ids: Collection[int]) -> list[int]:
        """Ids of the studies that have these runs, which may be in the trash."""
        ids: Any = sa.bindparam("run_ids", list(run_ids), expanding=True, literal_execute=True)  # may be any number
        return self._ids(Experiment.id.in_(sa.select(Run.experiment_id).where(Run.id.in_(ids))))

    def _ids(self, *conditions: sa.ColumnElement[bool]) -> list[int]:
        """The experiments with ``tune``.

        Matches the JSON as text first, because PostgreSQL cannot read keys of a document that contains \\u0000, as old
        ones may.
        """
        query = sa.select(Experiment.id, Experiment.config).where(*conditions).order_by(Experiment.id)
        query = query.where(sa.cast(Experiment.config, sa.Text).like('%"tune"%'))
        with self._database.read() as connection:
            return [row.id for row in connection.execute(query) if row.config.get("tune") is not None]

    def trashed_trials(self, experiment_id: int) -> list[dict[str, Any]]:
        """The study runs of the trials in the trash (``RunRecord.study``)."""
        query = sa.select(Run.config).where(Run.experiment_id == experiment_id, ~NOT_DELETED).order_by(Run.id)
        with self._database.read() as connection:
            study_runs = [config.get("study") for config in connection.scalars(query)]
        return [trial for trial in study_runs if trial is not None and trial["role"] == "trial"]

    def insert(self, experiment_id: int, choices: Sequence[ChoiceRecord]) -> None:
        """Stores choices that were made elsewhere; those that exist stay."""
        if not choices:
            return
        with self.changing(experiment_id) as study:
            known = {(choice.entry, choice.split) for choice in study.choices}
            for choice in choices:
                if (choice.entry, choice.split) not in known:
                    values = vars(choice) | {"experiment_id": experiment_id}
                    study.connection.execute(sa.insert(Choice).values(values))

    @contextmanager
    def reading(self, experiment_id: int) -> Iterator["StudyTransaction"]:
        """A study as of now, from which nothing can be written."""
        with self._database.read() as connection:
            yield StudyTransaction(connection, experiment_id)

    @contextmanager
    def changing(self, experiment_id: int) -> Iterator["StudyTransaction"]:
        """One transaction on a study, which no other one can change meanwhile. Raises ExperimentNotFound."""
        with self._database.write() as connection:
            locked = sa.select(Experiment.id).where(Experiment.id == experiment_id).with_for_update()
            if connection.scalar(locked) is None:
                raise ExperimentNotFound(experiment_id)
            yield StudyTransaction(connection, experiment_id)


@dataclass(frozen=True)
class StudyTransaction:
    """The rows of a study, and what may be added to them."""

    connection: sa.Connection
    experiment_id: int

    @property
    def choices(self) -> list[ChoiceRecord]:
        return _choices(self.connection, self.experiment_id)

    @property
    def runs(self) -> list[RunRecord]:
        """All runs but deleted ones, oldest first, without their partitions."""
        query = select_runs(with_partition=False).where(Run.experiment_id == self.experiment_id)
        return run_records(self.connection, query.order_by(Run.id))

    @property
    def is_imported(self) -> bool:
        """Whether a run was computed elsewhere; deleted ones count too."""
        is_imported = Run.provenance["imported"].as_boolean()
        query = sa.select(Run.id).where(Run.experiment_id == self.experiment_id, is_imported)
        return self.connection.scalar(query.limit(1)) is not None

    def measured(self, trials: Sequence[RunRecord], model: str) -> list[TrialRecord]:
        """The trials with their last evaluations of a model."""
        ids, until = [run.id for run in trials], {run.id: run.round for run in trials}
        accuracy, loss = (arrays_at(self.connection, ids, f"{model}.val_{what}") for what in ("accuracy", "loss"))
        spent = totals(self.connection, until, [GRADIENTS])
        query = sa.select(Partition.run_id, Partition.partition).where(Partition.run_id.in_(ids))
        partitions: dict[int, dict[str, Any]] = dict(self.connection.execute(query).all())
        sizes = {i: np.array(found["val_sizes"], float) for i, found in partitions.items()}
        malicious = {i: np.array(found["malicious"]) for i, found in partitions.items() if found.get("malicious")}
        return [
            TrialRecord(run, accuracy.get(i), loss.get(i), sizes.get(i), spent[i].get(GRADIENTS, 0.0), malicious.get(i))
            for i, run in zip(ids, trials, strict=True)
        ]

    def insert_choice(
        self,
        entry: str,
        split: int,
        *,
        trial: int,
        value: float | None,
        error: float | None,
        considered: int,
        tied: int,
    ) -> None:
        values = {"experiment_id": self.experiment_id, "entry": entry, "split": split, "trial": trial, "value": value}
        values |= {"error": error, "considered": considered, "tied": tied, "chosen_at": now()}
        self.connection.execute(sa.insert(Choice).values(values))

    def enqueue(self, runs: Sequence[NewRun]) -> list[int]:
        """Queues the runs whose positions no run has, also in the trash. Returns the ids of the new ones."""
        query = sa.select(Run.position).where(Run.experiment_id == self.experiment_id)
        taken = set(self.connection.scalars(query))
        new = [run for run in runs if run.position not in taken]
        return [insert_run(self.connection, self.experiment_id, run.position or 0, run) for run in new]


def _choices(connection: sa.Connection, experiment_id: int) -> list[ChoiceRecord]:
    columns = (getattr(Choice, field.name) for field in fields(ChoiceRecord))
    query = sa.select(*columns).where(Choice.experiment_id == experiment_id)
    query = query.order_by(Choice.chosen_at, Choice.entry, Choice.split)
    return [ChoiceRecord(*row) for row in connection.execute(query)]
