"""Which engines are alive, for the screen only: nothing is decided by it."""

from datetime import timedelta

import sqlalchemy as sa

from storage.database import Database
from storage.models import Engine, now
from storage.records import EngineRecord

FRESH_S = 10.0  # an engine beats every second


class Engines:
    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, *, host: str, pid: int, device: str, slots: int, running: int) -> str:
        """Says that this engine lives and how many runs it has; answers its id."""
        engine_id = f"{host}:{pid}"
        values = {"host": host, "pid": pid, "device": device, "slots": slots, "running": running, "heartbeat_at": now()}
        with self._database.write() as connection:
            if connection.execute(sa.update(Engine).where(Engine.id == engine_id).values(values)).rowcount == 0:
                first = {"id": engine_id, "started_at": values["heartbeat_at"]}
                connection.execute(sa.insert(Engine).values(values | first))
        return engine_id

    def list(self, fresh_s: float = FRESH_S) -> list[EngineRecord]:
        """Those heard of in the last ``fresh_s`` seconds; from the future are those of a clock that was set back."""
        at, margin = now(), timedelta(seconds=fresh_s)
        query = sa.select(*Engine.__table__.columns).where(Engine.heartbeat_at.between(at - margin, at + margin))
        with self._database.read() as connection:
            return [EngineRecord(**row._mapping) for row in connection.execute(query.order_by(Engine.started_at))]

    def remove(self, engine_id: str) -> None:
        with self._database.write() as connection:
            connection.execute(sa.delete(Engine).where(Engine.id == engine_id))
