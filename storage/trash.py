"""Runs that were deleted and can still be brought back: nobody sees, claims or counts them, but they are whole."""

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from storage.artifacts import ArtifactStore
from storage.database import Database
from storage.models import Run, now
from storage.records import RunRecord
from storage.run_queue import IN_USE, delete_runs, refuse_running, run_records, select_runs


class Trash:
    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def put(self, run_ids: Sequence[int]) -> None:
        """Raises RunsActive, and puts none, if one of them is running."""
        with self._database.write() as connection:
            refuse_running(connection, run_ids)
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids), IN_USE).values(deleted_at=now()))

    def restore(self, run_ids: Sequence[int]) -> None:
        """What was queued is queued again."""
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(deleted_at=None))

    def list(self) -> list[RunRecord]:
        """The last deleted first."""
        query = select_runs(with_partition=False, in_use=False).where(~IN_USE)
        with self._database.read() as connection:
            return run_records(connection, query.order_by(Run.deleted_at.desc(), Run.id.desc()))

    def delete(self, run_ids: Sequence[int]) -> int:
        """For good, those of them that are here still; answers how many."""
        return self._delete(Run.id.in_(run_ids))

    def empty(self, older_than: timedelta = timedelta(0)) -> int:
        """Deletes for good what has lain here for so long; answers how many runs."""
        return self._delete(Run.deleted_at <= now() - older_than)

    def _delete(self, which: sa.ColumnElement[bool]) -> int:
        with self._database.write() as connection:
            run_ids = connection.scalars(sa.select(Run.id).where(~IN_USE, which)).all()
            paths = delete_runs(connection, run_ids)
        self._artifacts.remove_files(paths)
        return len(run_ids)
