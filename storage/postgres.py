"""PostgreSQL, for more than one machine: everything that holds for it alone."""

import os
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from storage.database import Database, DispatcherLock
from storage.errors import DatabaseLocked, SchemaOutdated, StorageError
from storage.models import to_json

LOCK_CLASS, LOCK_OBJECT = 0x0FED, 0x5CA9E  # the advisory lock; locks are apart in each database of a server
NO_TABLE, NO_COLUMN, LOCK_TIMEOUT, DEADLOCK = "42P01", "42703", "55P03", "40P01"


class PostgreSQL(Database):
    """A database on a server, with artifacts in a folder that all machines see."""

    read_options = {"isolation_level": "REPEATABLE READ"}  # its default shows what others commit in between

    def open(self) -> sa.Engine:
        options = f"-c lock_timeout={round(1000 * self.timeout_s)}"
        try:
            return sa.create_engine(
                self.url, json_serializer=to_json, pool_pre_ping=True, connect_args={"options": options}
            )
        except ModuleNotFoundError as error:
            raise StorageError(f"{self.name} needs a driver: pip install 'psycopg[binary]'") from error

    @property
    def artifacts_folder(self) -> Path:
        return Path(os.environ.get("ARTIFACTS_DIR", "var/artifacts")).absolute()

    def back_up(self, label: str) -> Path | None:
        return None  # the server's owner has a backup; pg_dump is not ours to run

    def size_bytes(self) -> int:
        with self.read() as connection:
            return int(connection.scalar(sa.text("SELECT pg_database_size(current_database())")) or 0)

    @property
    def files(self) -> tuple[Path, ...]:
        return ()

    def try_lock(self) -> DispatcherLock | None:
        """Held by a connection of its own: the server frees it when that connection ends."""
        with self._explained():
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if connection.scalar(sa.select(sa.func.pg_try_advisory_lock(LOCK_CLASS, LOCK_OBJECT))):
                return DispatcherLock(lambda: _end(connection))
            connection.close()
            return None

    def is_locked(self) -> bool:
        held = sa.text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = :a AND objid = :b AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        with self.read() as connection:
            return bool(connection.scalar(held, {"a": LOCK_CLASS, "b": LOCK_OBJECT}))

    def explain(self, error: DBAPIError) -> StorageError:
        state, text = getattr(error.orig, "sqlstate", None), str(error.orig).strip()
        if state in (LOCK_TIMEOUT, DEADLOCK):
            return DatabaseLocked(f"{self.name} was locked by another session for {self.timeout_s:g} s; try again")
        if state in (NO_TABLE, NO_COLUMN):
            return SchemaOutdated(f"{self.name} has no or old tables; start the app, which brings them up to date")
        return StorageError(f"{self.name}: {text}; check that the server runs and that DATABASE_URL is right")


def _end(connection: sa.Connection) -> None:
    connection.invalidate()  # closes the session itself, so the lock goes even when the server no longer answers
    connection.close()
