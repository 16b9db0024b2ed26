"""A database behind a URL: transactions, the dispatcher's lock, and errors that say what to do.

Everything that differs between databases is in the two subclasses, ``storage/sqlite.py`` and ``storage/postgres.py``.
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

from storage.errors import DispatcherLockLost, StorageError
from storage.holders import Holder

Writing = Callable[[], AbstractContextManager[None]]


class DispatcherLock:
    """Held by the one dispatcher of a database. The system takes it back when the process dies."""

    def __init__(
        self,
        give_back: Callable[[], None],
        renew: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda notice: None,
    ) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self._renew, self._tell = renew, tell

    def renew(self) -> None:
        """To be called at every turn: a server that was away has forgotten the lock, and it is taken again.

        Raises DispatcherLockLost where another process was faster, or where it was given back, and Transient while
        nobody can know.
        """
        if self._give_back is None:
            raise DispatcherLockLost("the dispatcher's lock was given back; ask for it again")
        self._renew()

    def tell(self, notice: str) -> None:
        """What ``Store.dispatcher_notice`` answers to other processes, also while nobody can write to the database."""
        if self._give_back is not None:
            self._tell(notice)

    def release(self) -> None:
        """Releasing twice is fine."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> "DispatcherLock":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class Database(ABC):
    """Opened at the first transaction; threads may share it, processes open their own."""

    read_options: Mapping[str, Any] = {}

    def __init__(self, url: sa.URL, timeout_s: float, writing: Writing = nullcontext) -> None:
        """``writing`` is entered around every write, the wait for its lock included."""
        self.url, self.timeout_s, self._writing = url, timeout_s, writing
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
        """A transaction that changes nothing; it sees one state of the database throughout."""
        with self._explained(), self.engine.execution_options(**self.read_options).connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that commits as a whole, or not at all when an error leaves it."""
        engine = self.engine.execution_options(writes=True)
        with self._writing(), self._explained(), engine.begin() as connection:
            yield connection

    @contextmanager
    def migration(self) -> Iterator[sa.Connection]:
        """A transaction that may rebuild tables."""
        with self.write() as connection:
            yield connection

    def close(self) -> None:
        """Gives the connections back. A later call opens the database again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            message = f"this is stored already, or belongs to a run that was deleted ({error.orig}); reload and look"
            raise StorageError(message) from error
        except DBAPIError as error:
            raise self.explain(error) from error

    @property
    def name(self) -> str:
        """How messages call it; never shows a password."""
        return self.url.render_as_string(hide_password=True)

    @abstractmethod
    def open(self) -> sa.Engine: ...

    @abstractmethod
    def explain(self, error: DBAPIError) -> StorageError:
        """The driver's error in words that help."""

    @abstractmethod
    def try_lock(self) -> DispatcherLock | None:
        """The dispatcher's lock, or None while another process holds it."""

    @abstractmethod
    def is_locked(self) -> bool: ...

    def dispatcher_notice(self) -> str:
        return ""

    def writer(self) -> Holder | None:
        return None

    @abstractmethod
    def back_up(self, label: str) -> Path | None:
        """A copy beside the database, where the database is ours to copy."""

    @abstractmethod
    def size_bytes(self) -> int: ...

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """What of it lies on a disk of this machine, whether it is there now or not."""

    @property
    @abstractmethod
    def artifacts_folder(self) -> Path:
        """Where artifacts lie unless somebody says otherwise."""
