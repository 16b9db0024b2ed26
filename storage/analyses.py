"""Analyses of finished runs (landscapes, features, ...): asked for on screen, computed by the dispatcher's workers.

    queued -> running -> done | failed | cancelled
       ^         |            |
       +---------+------------+       a claim raises ``epoch``; only its holder may report on the analysis and finish it

One row for each run, kind and ``params``: who asks for what is there already gets that.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa

from storage.artifacts import ArtifactStore, insert_artifact
from storage.database import Database
from storage.errors import AnalysisNotFound, Fenced, RunNotFound
from storage.models import Analysis, Artifact, Run, UtcDateTime, now, to_json
from storage.records import ACTIVE, AnalysisRecord, AnalysisStatus, Control, NewArtifact

COLUMNS = tuple(Analysis.__table__.columns)
FRESH: dict[str, Any] = {
    "status": "queued",
    "progress": 0.0,
    "control": "",
    "attempts": 0,
    "error": None,
    "started_at": None,
    "finished_at": None,
}


class Analyses:
    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def get(self, analysis_id: int) -> AnalysisRecord:
        """Raises AnalysisNotFound."""
        with self._database.read() as connection:
            found = _records(connection, _select().where(Analysis.id == analysis_id))
        if not found:
            raise AnalysisNotFound(analysis_id)
        return found[0]

    def find(self, run_id: int, kind: str, params: dict[str, Any]) -> AnalysisRecord | None:
        """The one with exactly these ``params``."""
        with self._database.read() as connection:
            return _equal(_records(connection, _of_run(run_id, kind)), params)

    def of_runs(self, run_ids: Sequence[int], kind: str) -> list[AnalysisRecord]:
        """Those of many runs in one query, oldest first."""
        query = _select().where(Analysis.run_id.in_(run_ids), Analysis.kind == kind)
        with self._database.read() as connection:
            return _records(connection, query.order_by(Analysis.id))

    def active(self) -> list[AnalysisRecord]:
        """All that are queued or running, oldest first."""
        with self._database.read() as connection:
            return _records(connection, _select().where(Analysis.status.in_(ACTIVE)).order_by(Analysis.id))

    def list(self, run_id: int, kind: str | None = None) -> list[AnalysisRecord]:
        """Newest first."""
        with self._database.read() as connection:
            return _records(connection, _of_run(run_id, kind))

    # What a person asks for.

    def request(self, run_id: int, kind: str, params: dict[str, Any]) -> AnalysisRecord:
        """Queues it, unless an equal one is queued, running or done: then that. Raises RunNotFound.

        One that failed or was cancelled is queued again, and so is one whose result was deleted.
        """
        with self._database.write() as connection:
            if connection.scalar(sa.select(Run.id).where(Run.id == run_id).with_for_update()) is None:
                raise RunNotFound([run_id])  # locked: where writers don't wait for one another, those who ask do
            there = _equal(_records(connection, _of_run(run_id, kind)), params)
            if there is None:
                new = {"run_id": run_id, "kind": kind, "params": params, "created_at": now(), "epoch": 0}
                return _one(connection, sa.insert(Analysis).values(new | FRESH))
            if there.is_active or (there.status == "done" and there.artifact_id is not None):
                return there
            return _one(connection, sa.update(Analysis).where(Analysis.id == there.id).values(FRESH))

    def recompute(self, analysis_id: int) -> AnalysisRecord:
        """Forgets the result and queues it again, unless it is active. Raises AnalysisNotFound."""
        ended = sa.update(Analysis).where(Analysis.id == analysis_id, Analysis.status.not_in(ACTIVE))
        with self._database.write() as connection:
            old = connection.scalars(sa.select(Analysis.artifact_id).where(Analysis.id == analysis_id)).all()
            paths = []
            if connection.execute(ended.values(FRESH)).rowcount:
                doomed = sa.delete(Artifact).where(Artifact.id.in_(old)).returning(Artifact.path)
                paths = list(connection.scalars(doomed))
        self._artifacts.remove_files(paths)
        return self.get(analysis_id)

    def cancel(self, analysis_id: int) -> None:
        """At once where nobody computes it; a running one reads it with its next report. An ended one stays."""
        running = Analysis.status == "running"
        with self._database.write() as connection:  # one statement: a claim comes before or after it, not in between
            connection.execute(
                sa.update(Analysis)
                .where(Analysis.id == analysis_id, Analysis.status.in_(ACTIVE))
                .values(
                    status=sa.case((running, Analysis.status), else_="cancelled"),
                    control=sa.case((running, "cancel"), else_=""),
                    finished_at=sa.case((running, Analysis.finished_at), else_=sa.literal(now(), UtcDateTime())),
                )
            )

    # What the dispatcher does.

    def claim(self) -> AnalysisRecord | None:
        """Takes the oldest queued one, or None. From now on only its new epoch may write to it."""
        oldest = sa.select(Analysis.id).where(Analysis.status == "queued").order_by(Analysis.id).limit(1)
        with self._database.write() as connection:
            analysis_id = connection.scalar(oldest.with_for_update(skip_locked=True))
            if analysis_id is None:
                return None
            return _one(
                connection,
                sa.update(Analysis)
                .where(Analysis.id == analysis_id)
                .values(
                    status="running",
                    epoch=Analysis.epoch + 1,
                    attempts=Analysis.attempts + 1,
                    control="",
                    progress=0.0,
                    error=None,
                    started_at=now(),
                    finished_at=None,
                ),
            )

    def requeue_running(self) -> None:
        """At the dispatcher's start: nobody computes these. One that was to be cancelled is cancelled.

        That an attempt ended with its dispatcher says nothing against the analysis: it does not count.
        """
        with self._database.write() as connection:
            connection.execute(_let_go().values(attempts=Analysis.attempts - 1))

    def requeue(self, analysis_id: int, epoch: int) -> AnalysisStatus:
        """After its worker died: queued again, or cancelled if that was asked for. Fenced; answers the new status."""
        with self._database.write() as connection:
            _update_owned(connection, analysis_id, epoch, progress=0.0)
            let_go = _let_go().where(Analysis.id == analysis_id).returning(Analysis.status)
            return cast(AnalysisStatus, connection.scalars(let_go).one())

    # What the owner of an analysis does; all of it is fenced.

    def report(self, analysis_id: int, epoch: int, progress: float) -> Control:
        """How much of the work is done. Answers what the analysis is asked to do."""
        with self._database.write() as connection:
            return _update_owned(connection, analysis_id, epoch, progress=progress)

    def finish(
        self,
        analysis_id: int,
        epoch: int,
        status: AnalysisStatus,
        result: NewArtifact | None = None,
        error: str | None = None,
    ) -> None:
        """The last write of an owner; ``result`` is registered with it, or its file removed if it comes too late.

        Asked again after it has taken place, it raises Fenced, too, and the file stays.
        """
        values: dict[str, Any] = {"status": status, "error": error, "control": "", "finished_at": now()}
        if status == "done":
            values["progress"] = 1.0
        try:
            with self._database.write() as connection:
                _update_owned(connection, analysis_id, epoch, **values)
                if result is not None:
                    mine = sa.select(Analysis.run_id).where(Analysis.id == analysis_id)
                    artifact = insert_artifact(connection, connection.scalars(mine).one(), result)
                    link = sa.update(Analysis).where(Analysis.id == analysis_id)
                    connection.execute(link.values(artifact_id=artifact.id))
        except Fenced:
            if result is not None and not self._artifacts.is_registered(result):
                self._artifacts.remove_files([result.path])
            raise


def insert_analysis(
    connection: sa.Connection, run_id: int, kind: str, params: dict[str, Any], artifact_id: int
) -> None:
    """One that was computed elsewhere, inside the caller's transaction."""
    at = now()
    done = {"status": "done", "progress": 1.0, "artifact_id": artifact_id, "started_at": at, "finished_at": at}
    new = {"run_id": run_id, "kind": kind, "params": params, "created_at": at, "epoch": 0}
    connection.execute(sa.insert(Analysis).values(new | FRESH | done))


def _select() -> sa.Select:
    return sa.select(*COLUMNS)


def _of_run(run_id: int, kind: str | None) -> sa.Select:
    query = _select().where(Analysis.run_id == run_id).order_by(Analysis.id.desc())
    return query if kind is None else query.where(Analysis.kind == kind)


def _records(connection: sa.Connection, query: sa.Select) -> list[AnalysisRecord]:
    return [AnalysisRecord(**row._mapping) for row in connection.execute(query)]


def _one(connection: sa.Connection, written: sa.Insert | sa.Update) -> AnalysisRecord:
    return AnalysisRecord(**connection.execute(written.returning(*COLUMNS)).one()._mapping)


def _equal(records: list[AnalysisRecord], params: dict[str, Any]) -> AnalysisRecord | None:
    """Compared as they are stored: a tuple is a list there."""
    stored = json.loads(to_json(params))
    return next((record for record in records if record.params == stored), None)


def _update_owned(connection: sa.Connection, analysis_id: int, epoch: int, **values: Any) -> Control:
    """Writes if it is still running under this claim, else raises Fenced. Answers what it is asked to do."""
    owned = sa.update(Analysis).where(Analysis.id == analysis_id, Analysis.epoch == epoch, Analysis.status == "running")
    row = connection.execute(owned.values(**values).returning(Analysis.control)).one_or_none()
    if row is None:
        raise Fenced(analysis_id, epoch, "analysis")
    return row.control


def _let_go() -> sa.Update:
    """Running rows are cancelled where that was asked for, else queued."""
    is_unwanted = Analysis.control == "cancel"
    return (
        sa.update(Analysis)
        .where(Analysis.status == "running")
        .values(
            status=sa.case((is_unwanted, "cancelled"), else_="queued"),
            control="",
            progress=0.0,
            finished_at=sa.case((is_unwanted, sa.literal(now(), UtcDateTime()))),
        )
    )
