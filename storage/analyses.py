"""Analyses of finished runs (landscapes, features, ...): asked for on screen, computed by the dispatcher's workers."""

from typing import Any, Literal

import sqlalchemy as sa

from storage.database import Database
from storage.models import Analysis, now
from storage.records import AnalysisRecord

COLUMNS = tuple(Analysis.__table__.columns)


class Analyses:
    def __init__(self, database: Database) -> None:
        self._database = database

    def request(self, run_id: int, kind: str, params: dict[str, Any]) -> AnalysisRecord:
        values = {"run_id": run_id, "kind": kind, "params": params, "status": "queued", "created_at": now()}
        with self._database.write() as connection:
            return _one(connection.execute(sa.insert(Analysis).values(values).returning(*COLUMNS)))

    def list(self, run_id: int, kind: str | None = None) -> list[AnalysisRecord]:
        """Newest first."""
        query = sa.select(*COLUMNS).where(Analysis.run_id == run_id).order_by(Analysis.id.desc())
        if kind is not None:
            query = query.where(Analysis.kind == kind)
        with self._database.read() as connection:
            return [AnalysisRecord(**row._mapping) for row in connection.execute(query)]

    def claim(self) -> AnalysisRecord | None:
        """Takes the oldest queued one, or None."""
        oldest = sa.select(Analysis.id).where(Analysis.status == "queued").order_by(Analysis.id).limit(1)
        with self._database.write() as connection:
            analysis_id = connection.scalar(oldest.with_for_update(skip_locked=True))
            if analysis_id is None:
                return None
            taken = sa.update(Analysis).where(Analysis.id == analysis_id).values(status="running")
            return _one(connection.execute(taken.returning(*COLUMNS)))

    def finish(
        self, analysis_id: int, status: Literal["done", "failed"], artifact_id: int | None = None,
        error: str | None = None,
    ) -> None:
        values = {"status": status, "artifact_id": artifact_id, "error": error}
        with self._database.write() as connection:
            connection.execute(sa.update(Analysis).where(Analysis.id == analysis_id).values(values))

    def requeue_running(self) -> None:
        """At the dispatcher's start: nobody is computing these."""
        with self._database.write() as connection:
            connection.execute(sa.update(Analysis).where(Analysis.status == "running").values(status="queued"))


def _one(result: sa.CursorResult) -> AnalysisRecord:
    return AnalysisRecord(**result.one()._mapping)
