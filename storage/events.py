"""The log: events of a run or of the whole installation, as messages for the user."""

from collections.abc import Sequence

import sqlalchemy as sa

from storage.database import Database
from storage.errors import RunNotFound
from storage.models import Event, Run, now
from storage.records import EventRecord


class Events:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run_id: int | None, level: str, kind: str, message: str) -> None:
        """Adds an event. Raises RunNotFound if the run was deleted meanwhile."""
        values = {"run_id": run_id, "at": now(), "level": level, "kind": kind, "message": message}
        with self._database.write() as connection:
            if run_id is not None and connection.scalar(_lock_run(run_id)) is None:
                raise RunNotFound([run_id])
            connection.execute(sa.insert(Event).values(values))

    def for_runs(self, run_ids: Sequence[int], limit: int = 200, *, kinds: Sequence[str] = ()) -> list[EventRecord]:
        """The newest ``limit`` events of these runs, oldest first; only of these ``kinds`` if there are any."""
        return self._newest(sa.select(*Event.__table__.columns).where(Event.run_id.in_(run_ids)), limit, kinds)

    def _newest(self, query: sa.Select, limit: int, kinds: Sequence[str]) -> list[EventRecord]:
        if kinds:
            query = query.where(Event.kind.in_(kinds))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(Event.id.desc()).limit(limit))
            return [EventRecord(**row._mapping) for row in rows][::-1]

    def list(
        self, run_id: int | None = None, after: int = 0, limit: int = 200, *, kinds: Sequence[str] = ()
    ) -> list[EventRecord]:
        """The newest ``limit`` events with ids above ``after``, of one run or of all, oldest first.

        Only of these ``kinds`` if there are any.
        """
        query = sa.select(*Event.__table__.columns).where(Event.id > after)
        return self._newest(query if run_id is None else query.where(Event.run_id == run_id), limit, kinds)


def _lock_run(run_id: int) -> sa.Select:
    """Selects the run's row and locks it against deletion until the transaction ends."""
    return sa.select(Run.id).where(Run.id == run_id).with_for_update(read=True, key_share=True)
