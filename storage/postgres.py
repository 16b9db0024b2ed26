"""PostgreSQL, for several machines."""

import os
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from storage.database import Database, DispatcherLock
from storage.errors import (
    DatabaseLocked,
    DatabaseUnavailable,
    DiskFull,
    DispatcherLockLost,
    SchemaOutdated,
    StorageError,
)
from storage.models import to_json

LOCK_CLASS, LOCK_OBJECT = 0x0FED, 0x5CA9E  # the advisory lock; each database of a server has its own
NO_TABLE, NO_COLUMN, LOCK_TIMEOUT, DEADLOCK, DISK_FULL = "42P01", "42703", "55P03", "40P01", "53100"
TOO_LONG_IDLE = "25P03"
TOO_MANY_VALUES = "number of parameters must be between"  # libpq gives no SQLSTATE
UNAVAILABLE = ("08", "57P", "53300")  # SQLSTATE prefixes: no connection, server starting or stopping, no slot free
KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2}
IDLE_TRANSACTION_MS = 60_000  # after which the server ends an idle transaction
# After which a silent peer counts as gone, on client and server. Less than a worker's write may take, so that a worker
# that waits for the server is not killed as hung.
UNREACHABLE_MS = 20_000
DEFAULT_ARTIFACTS = Path(__file__).resolve().parents[1] / "var" / "artifacts"


class PostgreSQL(Database):
    """A database on a server, with artifacts in a folder shared by all machines."""

    read_options = {"isolation_level": "REPEATABLE READ"}  # the default shows commits made in between

    def open(self) -> sa.Engine:
        client = KEEPALIVES | {"tcp_user_timeout": UNREACHABLE_MS, "connect_timeout": max(2, round(self.timeout_s))}
        server = {f"tcp_{name}": value for name, value in KEEPALIVES.items()}
        server |= {
            "tcp_user_timeout": UNREACHABLE_MS,
            "lock_timeout": round(1000 * self.timeout_s),
            "idle_in_transaction_session_timeout": IDLE_TRANSACTION_MS,
        }
        arguments = {**client, "options": " ".join(f"-c {name}={value}" for name, value in server.items())}
        pool = {"pool_pre_ping": True, "pool_timeout": self.timeout_s}
        try:
            return sa.create_engine(self.url, json_serializer=to_json, connect_args=arguments, **pool)
        except ModuleNotFoundError as error:
            raise StorageError(f"{self.name} needs a driver: pip install 'psycopg[binary]'") from error

    @property
    def artifacts_folder(self) -> Path:
        return Path(os.environ.get("ARTIFACTS_DIR") or DEFAULT_ARTIFACTS).absolute()

    def identity(self) -> str | None:
        """The numbers of the server and the database, which a copy or a restored dump does not have.

        That of the server is 0 where its administrator hides it.
        """
        is_shown = sa.text("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
        server = sa.text("SELECT system_identifier FROM pg_control_system()")
        database = sa.text("SELECT oid FROM pg_database WHERE datname = current_database()")
        with self.read() as connection:
            number = connection.scalar(server) if connection.scalar(is_shown) else 0
            return f"{number}-{connection.scalar(database)}"

    def back_up(self, label: str) -> Path | None:
        return None  # the server's administrator makes backups

    def size_bytes(self) -> int:
        with self.read() as connection:
            return int(connection.scalar(sa.text("SELECT pg_database_size(current_database())")) or 0)

    @property
    def files(self) -> tuple[Path, ...]:
        return ()

    def try_lock(self) -> DispatcherLock | None:
        """The lock is held by a separate connection: the server releases it when that ends."""
        connection = self._locked_connection()
        if connection is None:
            return None
        lock = _LockConnection(self, connection)
        return DispatcherLock(lock.release, lock.renew)

    def _locked_connection(self) -> sa.Connection | None:
        with self._translated_errors():
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            is_ours = False
            try:
                is_ours = bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(LOCK_CLASS, LOCK_OBJECT))))
            finally:
                if not is_ours:
                    connection.close()
            return connection if is_ours else None

    def is_locked(self) -> bool:
        held = sa.text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = :a AND objid = :b AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        with self.read() as connection:
            return bool(connection.scalar(held, {"a": LOCK_CLASS, "b": LOCK_OBJECT}))

    def explain(self, error: DBAPIError) -> StorageError:
        state, text = getattr(error.orig, "sqlstate", None), str(error.orig).strip()
        first_line = text.partition("\n")[0]
        if state == LOCK_TIMEOUT:
            return DatabaseLocked(f"{self.name} was locked by another session for {self.timeout_s:g} s; try again")
        if state == DEADLOCK:
            return DatabaseLocked(f"{self.name}: this write and one of another session blocked each other; try again")
        if state == DISK_FULL:
            return DiskFull(f"{self.name}: {text}; the server's disk is full; free some space there")
        if state in (NO_TABLE, NO_COLUMN):
            return SchemaOutdated(f"the tables of {self.name} are missing or old; start the app, which migrates them")
        if TOO_MANY_VALUES in text:
            return StorageError(f"{self.name} cannot take so many runs or experiments at once ({text}); select fewer")
        is_unavailable = isinstance(error, OperationalError) and (state or "08").startswith(UNAVAILABLE)
        if error.connection_invalidated or is_unavailable or state == TOO_LONG_IDLE:
            return DatabaseUnavailable(
                f"{self.name} does not answer ({first_line}); active runs wait for it. Check "
                "that the server runs and that DATABASE_URL is right"
            )
        return StorageError(f"{self.name}: {text}; see the server's log")


class _LockConnection:
    """The connection that holds the dispatcher's lock, replaced when it breaks."""

    def __init__(self, database: PostgreSQL, connection: sa.Connection) -> None:
        self._database = database
        self._connection: sa.Connection | None = connection

    def renew(self) -> None:
        if self._is_alive():
            return
        self._connection = self._database._locked_connection()
        if self._connection is None:
            raise DispatcherLockLost(
                f"the connection to {self._database.name} broke, and another process has become the dispatcher"
            )

    def release(self) -> None:
        """The lock is free when this returns, or once the server notices that the session has ended."""
        if self._connection is not None:
            with suppress(DBAPIError):
                self._connection.scalar(sa.select(sa.func.pg_advisory_unlock(LOCK_CLASS, LOCK_OBJECT)))
            self._drop(self._connection)

    def _is_alive(self) -> bool:
        """Whether the session is alive, and with it the lock."""
        if self._connection is None:
            return False
        try:
            self._connection.scalar(sa.select(1))
        except DBAPIError:
            self._drop(self._connection)  # its next use would silently start another session
            return False
        return True

    def _drop(self, connection: sa.Connection) -> None:
        self._connection = None
        connection.invalidate()
        connection.close()
