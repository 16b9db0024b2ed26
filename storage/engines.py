"""Which engines are alive. For display only: nothing depends on it."""

from datetime import timedelta

import sqlalchemy as sa

from storage.database import Database
from storage.models import Engine, now
from storage.records import EngineRecord

FRESH_S = 10.0  # an engine sends one every second


class Engines:
    def __init__(self, database: Database) -> None:
        self._database = database

    def heartbeat(self, *, host: str, pid: int, device: str, slots: int, running: int) -> str:
        """Stores a heartbeat with the number of running runs; returns the engine's id."""
        engine_id = f"{host}:{pid}"
        values = {"host": host, "pid": pid, "device": device, "slots": slots, "running": running, "heartbeat_at": now()}
        with self._database.write() as connection:
            if connection.execute(sa.update(Engine).where(Engine.id == engine_id).values(values)).rowcount == 0:
                first = {"id": engine_id, "started_at": values["heartbeat_at"]}
                connection.execute(sa.insert(Engine).values(values | first))
        return engine_id

    def list(self, fresh_s: float = FRESH_S) -> list[EngineRecord]:
        """Engines with a heartbeat within ``fresh_s`` seconds or as far ahead: clocks may be set back."""
        at, margin = now(), timedelta(seconds=fresh_s)
        query = sa.select(*Engine.__table__.columns).where(Engine.heartbeat_at.between(at - margin, at + margin))
        with self._database.read() as connection:
            return [EngineRecord(**row._mapping) for row in connection.execute(query.order_by(Engine.started_at))]

    def remove(self, engine_id: str) -> None:
        with self._database.write() as connection:
            connection.execute(sa.delete(Engine).where(Engine.id == engine_id))
