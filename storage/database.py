"""A database behind a URL: transactions, the dispatcher's lock, and errors with advice.

``storage/sqlite.py`` and ``storage/postgres.py`` implement what differs between databases.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from storage.errors import DatabaseLocked, DispatcherLockLost, StorageError
from storage.holders import LockHolder

WriteGuard = Callable[[], AbstractContextManager[None]]
BeforeCommit = Callable[[sa.Connection], None]


class DispatcherLock:
    """The lock held by the one dispatcher of a database. The system releases it when the process dies."""

    def __init__(
        self,
        release_lock: Callable[[], None],
        renew: Callable[[], None] = lambda: None,
        set_notice: Callable[[str], None] = lambda notice: None,
    ) -> None:
        self._release: Callable[[], None] | None = release_lock
        self._renew, self._set_notice = renew, set_notice

    def renew(self) -> None:
        """Takes the lock again if the server has lost it. Call it in every iteration of the dispatcher.

        Raises DispatcherLockLost if another process has it now or if it was released, and Transient while that is
        unknown.
        """
        if self._release is None:
            raise DispatcherLockLost("the dispatcher's lock was released; acquire it again")
        self._renew()

    def set_notice(self, notice: str) -> None:
        """Sets what ``Store.dispatcher_notice`` returns in other processes, even while nothing can be written."""
        if self._release is not None:
            self._set_notice(notice)

    def release(self) -> None:
        """Releases the lock; may be called twice."""
        release_lock, self._release = self._release, None
        if release_lock is not None:
            release_lock()

    def __enter__(self) -> "DispatcherLock":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class Database(ABC):
    """Opened by the first transaction. Threads may share it; each process opens its own."""

    read_options: Mapping[str, Any] = {}

    def __init__(
        self,
        url: sa.URL,
        timeout_s: float,
        writing: WriteGuard = nullcontext,
        before_commit: BeforeCommit = lambda connection: None,
    ) -> None:
        """``writing`` is entered around every write, including the wait for the write lock.

        ``before_commit`` is called in every transaction that writes, and may raise to undo it.
        """
        self.url, self.timeout_s, self._writing, self._before_commit = url, timeout_s, writing, before_commit
        self._lock = threading.Lock()
        self._engine: sa.Engine | None = None

    @property
    def engine(self) -> sa.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self.open()
            return self._engine

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A read-only transaction on one snapshot of the database."""
        with self._translated_errors(), self.engine.execution_options(**self.read_options).connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that commits as a whole, or rolls back on an error."""
        engine = self.engine.execution_options(writes=True)
        with self._writing(), self._turn_to_write(), self._translated_errors(), engine.begin() as connection:
            yield connection
            self._before_commit(connection)

    def _turn_to_write(self) -> AbstractContextManager[None]:
        """Entered around every write, after ``writing``: may wait for other threads."""
        return nullcontext()

    @contextmanager
    def migration(self) -> Iterator[sa.Connection]:
        """A transaction that may rebuild tables."""
        with self.write() as connection:
            yield connection

    def close(self) -> None:
        """Closes the connections. A later call opens the database again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            message = f"already stored, or what it belongs to was deleted ({error.orig}); reload and try again"
            raise StorageError(message) from error
        except DBAPIError as error:
            raise self.explain(error) from error
        except NoConnectionFree as error:
            raise DatabaseLocked(
                f"all connections of this process to {self.name} were in use for {self.timeout_s:g} s; try again"
            ) from error

    @property
    def name(self) -> str:
        """The URL for messages, without the password."""
        return self.url.render_as_string(hide_password=True)

    @property
    def exists(self) -> bool:
        """False for a file that the first transaction would create."""
        return True

    @abstractmethod
    def open(self) -> sa.Engine: ...

    @abstractmethod
    def explain(self, error: DBAPIError) -> StorageError:
        """Translates a driver's error into one with advice."""

    @abstractmethod
    def try_lock(self) -> DispatcherLock | None:
        """Acquires the dispatcher's lock, or returns None while another process holds it."""

    @abstractmethod
    def is_locked(self) -> bool: ...

    def dispatcher_notice(self) -> str:
        return ""

    def writer(self) -> LockHolder | None:
        return None

    @abstractmethod
    def back_up(self, label: str) -> Path | None:
        """Copies the database to a file next to it; None for a server, whose owner makes backups."""

    @abstractmethod
    def size_bytes(self) -> int: ...

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """The database's files on this machine, including those that exist only at times."""

    @property
    @abstractmethod
    def artifacts_folder(self) -> Path:
        """The default folder of the artifacts."""

    def identity(self) -> str | None:
        """What tells it from other databases with the same artifacts folder; None if there cannot be any."""
        return None


def hold_lock(connection: sa.Connection, key: int) -> None:
    """Wait for the lock ``key``, and hold it until the transaction ends. SQLite has only one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
