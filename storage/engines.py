"""The engines that are alive. For display only: nothing depends on it."""

from collections.abc import Collection
from datetime import timedelta

import sqlalchemy as sa

from storage.database import Database
from storage.models import Engine, now
from storage.records import EngineRecord

FRESH_S = 10.0  # a dispatcher sends one every two seconds


class Engines:
    def __init__(self, database: Database) -> None:
        self._database = database

    def heartbeat(
        self,
        *,
        host: str,
        pid: int,
        device: str,
        slots: int,
        running: int,
        name: str = "",
        cpus: int = 0,
        gpus: int = 0,
        problem: str = "",
    ) -> str:
        """Stores a heartbeat with the number of running runs; returns the engine's id, by default ``host:pid``."""
        engine_id, at = name or f"{host}:{pid}", now()
        values = {"host": host, "pid": pid, "device": device, "slots": slots, "running": running, "heartbeat_at": at}
        values |= {"cpus": cpus, "gpus": gpus, "problem": problem}
        with self._database.write() as connection:
            if connection.execute(sa.update(Engine).where(Engine.id == engine_id).values(values)).rowcount == 0:
                connection.execute(sa.insert(Engine).values(values | {"id": engine_id, "started_at": at}))
        return engine_id

    def list(self, fresh_s: float = FRESH_S) -> list[EngineRecord]:
        """Engines with a heartbeat within ``fresh_s`` seconds or as far ahead: clocks may be set back."""
        at, margin = now(), timedelta(seconds=fresh_s)
        query = sa.select(*Engine.__table__.columns).where(Engine.heartbeat_at.between(at - margin, at + margin))
        with self._database.read() as connection:
            return [EngineRecord(**row._mapping) for row in connection.execute(query.order_by(Engine.started_at))]

    def remove(self, engine_ids: Collection[str]) -> None:
        with self._database.write() as connection:
            connection.execute(sa.delete(Engine).where(Engine.id.in_(engine_ids)))

    def forget(self, after: timedelta) -> None:
        """Deletes those whose last heartbeat is longer ago."""
        with self._database.write() as connection:
            connection.execute(sa.delete(Engine).where(Engine.heartbeat_at < now() - after))
