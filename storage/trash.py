"""The trash: deleted runs that can be restored. They are complete, but hidden, never claimed and not counted."""

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from storage.artifacts import ArtifactStore
from storage.database import Database
from storage.models import Run, now
from storage.records import RunRecord
from storage.run_queue import NOT_DELETED, delete_runs, refuse_running, run_records, select_runs

AT_ONCE = 100  # runs deleted in one transaction, for which other writers wait


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
        """Permanently deletes those of the runs that are in the trash; returns how many.

        Deletes AT_ONCE runs per transaction, so that others can write in between.
        """
        return self._delete(run_ids, ~NOT_DELETED)

    def empty(self, older_than: timedelta = timedelta(0)) -> int:
        """Permanently deletes runs that have been in the trash for ``older_than``, like ``delete``."""
        is_old = Run.deleted_at <= now() - older_than
        with self._database.read() as connection:
            run_ids = connection.scalars(sa.select(Run.id).where(is_old)).all()
        return self._delete(run_ids, is_old)

    def _delete(self, run_ids: Sequence[int], still: sa.ColumnElement[bool]) -> int:
        batches = (run_ids[at : at + AT_ONCE] for at in range(0, len(run_ids), AT_ONCE))
        return sum(self._delete_at_once(batch, still) for batch in batches)

    def _delete_at_once(self, run_ids: Sequence[int], still: sa.ColumnElement[bool]) -> int:
        in_trash = sa.select(Run.id).where(Run.id.in_(run_ids), still).order_by(Run.id)
        with self._database.write() as connection:
            found = connection.scalars(in_trash.with_for_update()).all()  # the lock keeps them from being restored
            paths = delete_runs(connection, found)
        self._artifacts.remove_files(paths)
        return len(found)
