"""The trash: deleted runs that can be restored. They are complete, but hidden, never claimed and not counted."""

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from storage.artifacts import ArtifactStore
from storage.database import Database
from storage.models import Run, now
from storage.records import RunRecord
from storage.run_queue import NOT_DELETED, delete_runs, refuse_running, run_records, select_runs


class Trash:
    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def put(self, run_ids: Sequence[int]) -> None:
        """Moves runs to the trash. Raises RunsActive, and moves none, if one is running."""
        with self._database.write() as connection:
            refuse_running(connection, run_ids)
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids), NOT_DELETED).values(deleted_at=now()))

    def restore(self, run_ids: Sequence[int]) -> None:
        """Restores runs; those that were queued are queued again."""
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(deleted_at=None))

    def ids(self) -> list[int]:
        """Ids of the runs in the trash. Faster than loading the runs."""
        with self._database.read() as connection:
            return [*connection.scalars(sa.select(Run.id).where(~NOT_DELETED))]

    def list(self) -> list[RunRecord]:
        """The runs in the trash, last deleted first."""
        query = select_runs(with_partition=False, include_deleted=True).where(~NOT_DELETED)
        with self._database.read() as connection:
            return run_records(connection, query.order_by(Run.deleted_at.desc(), Run.id.desc()))

    def delete(self, run_ids: Sequence[int]) -> int:
        """Permanently deletes those of the runs that are in the trash; returns how many."""
        return self._delete(Run.id.in_(run_ids))

    def empty(self, older_than: timedelta = timedelta(0)) -> int:
        """Permanently deletes runs that have been in the trash for ``older_than``; returns how many."""
        return self._delete(Run.deleted_at <= now() - older_than)

    def _delete(self, which: sa.ColumnElement[bool]) -> int:
        with self._database.write() as connection:
            run_ids = connection.scalars(sa.select(Run.id).where(~NOT_DELETED, which)).all()
            paths = delete_runs(connection, run_ids)
        self._artifacts.remove_files(paths)
        return len(run_ids)
