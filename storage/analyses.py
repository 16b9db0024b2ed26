"""Analyses of finished runs (landscapes, features, ...): requested in the app, computed by the dispatcher's workers.

    queued -> running -> done | failed | cancelled
       ^         |            |
       +---------+------------+       a claim raises ``epoch``; only the claim's owner may write to the analysis

One row per run, kind and ``params``: requesting an analysis that exists returns the existing one. While its run is in
the trash, a queued analysis is neither claimed nor counted.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa

from storage.artifacts import ArtifactStore, insert_artifact
from storage.database import Database
from storage.errors import AnalysisNotFound, Fenced, RunNotFound
from storage.models import Analysis, Artifact, Run, UtcDateTime, now, to_json
from storage.records import ACTIVE, AnalysisRecord, AnalysisStatus, Control, NewArtifact
from storage.run_queue import NOT_DELETED
from storage.shares import keep_compute

COLUMNS = tuple(Analysis.__table__.columns)
IS_RUNNING, IS_WAITING = Analysis.status == "running", sa.and_(Analysis.status == "queued", NOT_DELETED)
IS_ACTIVE = IS_RUNNING | IS_WAITING  # this and IS_WAITING need a join with Run
INITIAL: dict[str, Any] = {
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
        """The analysis with this id. Raises AnalysisNotFound."""
        with self._database.read() as connection:
            found = _records(connection, _select().where(Analysis.id == analysis_id))
        if not found:
            raise AnalysisNotFound(analysis_id)
        return found[0]

    def find(self, run_id: int, kind: str, params: dict[str, Any]) -> AnalysisRecord | None:
        """The analysis with exactly these ``params``, or None."""
        with self._database.read() as connection:
            return find_analysis(connection, run_id, kind, params)

    def for_runs(self, run_ids: Sequence[int], kind: str) -> list[AnalysisRecord]:
        """The analyses of several runs in one query, oldest first."""
        query = _select().where(Analysis.run_id.in_(run_ids), Analysis.kind == kind)
        with self._database.read() as connection:
            return _records(connection, query.order_by(Analysis.id))

    def done(self, run_ids: Sequence[int]) -> list[tuple[int, datetime | None]]:
        """The analyses of several runs that have a result, by id, each with the time at which it ended."""
        has_result = sa.and_(Analysis.status == "done", Analysis.artifact_id.is_not(None))
        query = sa.select(Analysis.id, Analysis.finished_at).where(Analysis.run_id.in_(run_ids), has_result)
        with self._database.read() as connection:
            return [(row[0], row[1]) for row in connection.execute(query.order_by(Analysis.id))]

    def active(self) -> list[AnalysisRecord]:
        """All running analyses, and those waiting for a slot, oldest first."""
        with self._database.read() as connection:
            return _records(connection, _select().join(Run).where(IS_ACTIVE).order_by(Analysis.id))

    def list(self, run_id: int, kind: str | None = None) -> list[AnalysisRecord]:
        """The analyses of a run, newest first."""
        with self._database.read() as connection:
            return _records(connection, _select_of_run(run_id, kind))

    # Called for the user.

    def request(self, run_id: int, kind: str, params: dict[str, Any]) -> AnalysisRecord:
        """Queues an analysis, or returns the equal one that is queued, running or done.

        An analysis that failed or was cancelled, or whose result was deleted, is queued again. Raises RunNotFound,
        also for a run in the trash.
        """
        with self._database.write() as connection:
            if connection.scalar(sa.select(Run.id).where(Run.id == run_id, NOT_DELETED).with_for_update()) is None:
                raise RunNotFound([run_id])  # the lock serializes requests on PostgreSQL
            existing = find_analysis(connection, run_id, kind, params)
            if existing is None:
                new = {"run_id": run_id, "kind": kind, "params": params, "created_at": now(), "epoch": 0}
                return _write_one(connection, sa.insert(Analysis).values(new | INITIAL))
            if existing.is_active or (existing.status == "done" and existing.artifact_id is not None):
                return existing
            _restart(connection, existing.id)
            return _records(connection, _select().where(Analysis.id == existing.id))[0]

    def recompute(self, analysis_id: int) -> AnalysisRecord:
        """Deletes the result and queues the analysis again, unless it is active. Raises AnalysisNotFound."""
        with self._database.write() as connection:
            old = _restart(connection, analysis_id)
            deleted = sa.delete(Artifact).where(Artifact.id == old).returning(Artifact.path)
            paths = connection.scalars(deleted).all()
        self._artifacts.remove_files(paths)
        return self.get(analysis_id)

    def cancel(self, analysis_id: int) -> None:
        """Cancels a queued analysis immediately and requests a running one to stop; no effect on one that has ended."""
        running = Analysis.status == "running"
        with self._database.write() as connection:  # one statement, so that no claim comes in between
            connection.execute(
                sa.update(Analysis)
                .where(Analysis.id == analysis_id, Analysis.status.in_(ACTIVE))
                .values(
                    status=sa.case((running, Analysis.status), else_="cancelled"),
                    control=sa.case((running, "cancel"), else_=""),
                    finished_at=sa.case((running, Analysis.finished_at), else_=sa.literal(now(), UtcDateTime())),
                )
            )

    # Called by the dispatcher.

    def claim(self) -> AnalysisRecord | None:
        """Claims the oldest queued analysis, or returns None. From now on only the new epoch may write to it."""
        oldest = sa.select(Analysis.id).join(Run).where(IS_WAITING).order_by(Analysis.id).limit(1)
        with self._database.write() as connection:
            analysis_id = connection.scalar(oldest.with_for_update(skip_locked=True, of=Analysis))
            if analysis_id is None:
                return None
            return _write_one(
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
        """Requeues all running analyses when a dispatcher starts; those with a pending cancel are cancelled.

        The interrupted attempt is not counted: it ended with its dispatcher, not because of the analysis.
        """
        with self._database.write() as connection:
            connection.execute(_release_running())

    def requeue(self, analysis_id: int, epoch: int, *, has_died: bool = False) -> AnalysisStatus:
        """Requeues an analysis, or cancels it if requested. Returns the new status; raises Fenced.

        Only an attempt whose worker ``has_died`` is counted.
        """
        with self._database.write() as connection:
            _update_owned(connection, analysis_id, epoch, progress=0.0)
            released = _release_running(has_died).where(Analysis.id == analysis_id).returning(Analysis.status)
            return cast(AnalysisStatus, connection.scalars(released).one())

    # Called by the owner of an analysis; all of it raises Fenced once the claim is lost.

    def report(self, analysis_id: int, epoch: int, progress: float) -> Control:
        """Stores the progress, from 0 to 1. Returns the pending control request, '' if there is none."""
        with self._database.write() as connection:
            return _update_owned(connection, analysis_id, epoch, progress=progress)

    def finish(
        self,
        analysis_id: int,
        epoch: int,
        status: AnalysisStatus,
        *,
        result: NewArtifact | None = None,
        error: str | None = None,
    ) -> None:
        """Stores the final status and registers ``result``. Raises Fenced if the claim is lost or already finished.

        The file of a result that comes too late is deleted, but not that of one that was registered by an earlier call.
        """
        values: dict[str, Any] = {"status": status, "error": error, "control": "", "finished_at": now()}
        if status == "done":
            values["progress"] = 1.0
        try:
            with self._database.write() as connection:
                _update_owned(connection, analysis_id, epoch, **values)
                if result is not None:
                    run_of_it = sa.select(Analysis.run_id).where(Analysis.id == analysis_id)
                    artifact = insert_artifact(connection, connection.scalars(run_of_it).one(), result)
                    link = sa.update(Analysis).where(Analysis.id == analysis_id)
                    connection.execute(link.values(artifact_id=artifact.id))
        except Fenced:
            if result is not None:
                self._artifacts.remove_unregistered(result)
            raise


def find_analysis(connection: sa.Connection, run_id: int, kind: str, params: dict[str, Any]) -> AnalysisRecord | None:
    """The analysis with equal ``params``, compared as JSON, in which a tuple is a list."""
    records, stored = _records(connection, _select_of_run(run_id, kind)), json.loads(to_json(params))
    return next((record for record in records if record.params == stored), None)


def insert_analysis(
    connection: sa.Connection, run_id: int, kind: str, params: dict[str, Any], artifact_id: int
) -> None:
    """Inserts an analysis that was computed elsewhere, inside the caller's transaction."""
    at = now()
    done = {"status": "done", "progress": 1.0, "artifact_id": artifact_id, "started_at": at, "finished_at": at}
    new = {"run_id": run_id, "kind": kind, "params": params, "created_at": at, "epoch": 0}
    connection.execute(sa.insert(Analysis).values(new | INITIAL | done))


def _select() -> sa.Select:
    return sa.select(*COLUMNS)


def _select_of_run(run_id: int, kind: str | None) -> sa.Select:
    query = _select().where(Analysis.run_id == run_id).order_by(Analysis.id.desc())
    return query if kind is None else query.where(Analysis.kind == kind)


def _records(connection: sa.Connection, query: sa.Select) -> list[AnalysisRecord]:
    return [AnalysisRecord(**row._mapping) for row in connection.execute(query)]


def _write_one(connection: sa.Connection, written: sa.Insert | sa.Update) -> AnalysisRecord:
    return AnalysisRecord(**connection.execute(written.returning(*COLUMNS)).one()._mapping)


def _restart(connection: sa.Connection, analysis_id: int) -> int | None:
    """Queues an analysis again, unless it is active. Returns the artifact of its old result, if there was one."""
    ended = sa.select(Analysis.artifact_id).where(Analysis.id == analysis_id, Analysis.status.not_in(ACTIVE))
    row = connection.execute(ended.with_for_update()).one_or_none()  # the lock lets its time be counted only once
    if row is None:
        return None
    keep_compute(connection, sa.false(), Analysis.id == analysis_id)
    connection.execute(sa.update(Analysis).where(Analysis.id == analysis_id).values(INITIAL))
    return row.artifact_id


def _update_owned(connection: sa.Connection, analysis_id: int, epoch: int, **values: Any) -> Control:
    """Updates a running analysis under this claim, else raises Fenced. Returns the pending control request."""
    owned = sa.update(Analysis).where(Analysis.id == analysis_id, Analysis.epoch == epoch, Analysis.status == "running")
    row = connection.execute(owned.values(**values).returning(Analysis.control)).one_or_none()
    if row is None:
        raise Fenced(analysis_id, epoch, "analysis")
    return row.control


def _release_running(has_died: bool = False) -> sa.Update:
    """Running rows become cancelled where that was requested, else queued."""
    is_cancelled = Analysis.control == "cancel"
    return (
        sa.update(Analysis)
        .where(Analysis.status == "running")
        .values(
            status=sa.case((is_cancelled, "cancelled"), else_="queued"),
            control="",
            progress=0.0,
            attempts=Analysis.attempts if has_died else Analysis.attempts - 1,
            finished_at=sa.case((is_cancelled, sa.literal(now(), UtcDateTime()))),
        )
    )
