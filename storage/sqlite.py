"""SQLite.

Writers take the write lock when they begin (``BEGIN IMMEDIATE``): a transaction that reads first and upgrades later
fails immediately if another writer was faster, regardless of the timeout.
"""

import fcntl
import importlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from storage.database import BeforeCommit, Database, DispatcherLock, WriteGuard
from storage.errors import (
    DatabaseLocked,
    DiskFull,
    NetworkFileSystem,
    NotADatabase,
    SchemaOutdated,
    StorageError,
)
from storage.file_guard import FileGuard
from storage.holders import LockHolder, find_process, lock_holder
from storage.models import to_json

SAFE_VERSION = (3, 51, 3)
NETWORK_FILE_SYSTEMS = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "smb3",
        "smbfs",
    }
)
PAGES = 4096  # per step of a copy
SYNCHRONOUS = "FULL"  # each commit waits for the disk; with NORMAL a power cut undoes some: DECISIONS.md, 110
LOCK_TRIES, LOCK_PAUSE_S = 10, 0.02
WRITE_LOCK = 120  # the byte of the -shm file locked by a writer (sqlite.org/walformat.html)
READONLY, BUSY, LOCKED, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB = 8, 5, 6, 10, 11, 13, 14, 26
# By their texts, which are all that pysqlite3 gives when a copy fails.
CODES = {
    "disk I/O error": IOERR,
    "database or disk is full": FULL,
    "database disk image is malformed": CORRUPT,
    "file is not a database": NOTADB,
}

log = logging.getLogger(__name__)


class SQLite(Database):
    """A database file, with its dispatcher lock and its artifacts next to it."""

    def __init__(
        self,
        url: sa.URL,
        timeout_s: float,
        writing: WriteGuard = nullcontext,
        before_commit: BeforeCommit = lambda connection: None,
    ) -> None:
        if not url.database or url.database == ":memory:":
            raise StorageError("several processes share the database; it must be a file: sqlite:///path/to/file.db")
        self.path = Path(os.path.realpath(url.database))  # its lock and artifacts are next to the file, not to a link
        super().__init__(url.set(database=str(self.path)), timeout_s, writing, before_commit)
        self._one_writer = threading.Lock()

    @property
    def exists(self) -> bool:
        try:
            self.path.stat()
        except OSError as error:  # opening it explains all others
            return not isinstance(error, FileNotFoundError)
        return True

    def open(self) -> sa.Engine:
        self._make_folder()
        refuse_network_file_system(self.path)
        engine = sa.create_engine(self.url, module=driver(), json_serializer=to_json, pool_timeout=self.timeout_s)
        sa.event.listen(engine, "connect", self._prepare_connection)
        FileGuard(self.path, engine)  # after it: SQLite creates a missing file on first use
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot create {self.path.parent} ({error.strerror}); set DATABASE_URL") from error

    def _prepare_connection(self, connection: Any, _: Any) -> None:
        connection.isolation_level = None  # _begin starts transactions, not the driver
        for pragma in (f"busy_timeout={round(1000 * self.timeout_s)}", f"synchronous={SYNCHRONOUS}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        self._enable_wal(connection)

    def _enable_wal(self, connection: Any) -> None:
        """Switches to WAL, retrying until the timeout.

        SQLite reports BUSY immediately if several processes create a database together.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL").close()
                return
            except driver().OperationalError as error:
                if _code(error) != BUSY or time.monotonic() >= deadline:
                    raise
            time.sleep(LOCK_PAUSE_S)

    @contextmanager
    def _turn_to_write(self) -> Iterator[None]:
        """Threads that wait for SQLite's lock would keep all connections from those that only read."""
        if not self._one_writer.acquire(timeout=self.timeout_s):
            if self.writer() is not None:
                raise self._locked()
            raise DatabaseLocked(
                f"{self.path}: another write of this process took longer than {self.timeout_s:g} s; try again"
            )
        try:
            yield
        finally:
            self._one_writer.release()

    @contextmanager
    def migration(self) -> Iterator[sa.Connection]:
        """Foreign keys are off: rebuilding a table drops the old one, which would delete the rows that point to it."""
        with self._translated_errors(), self.engine.execution_options(writes=True).connect() as connection:
            driver_connection = connection.connection.driver_connection
            assert driver_connection is not None  # only a detached connection has none
            driver_connection.execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.begin():
                    yield connection
            finally:
                driver_connection.execute("PRAGMA foreign_keys=ON")

    def back_up(self, label: str) -> Path | None:
        """Copies to a temporary name first, so that a file under the final name is complete."""
        target = self.path.with_name(f"{self.path.name}.backup-{label}.db")
        unfinished = target.with_suffix(".tmp")
        unfinished.unlink(missing_ok=True)
        try:
            with self.read() as connection:
                self.copy(connection, unfinished)
            os.replace(unfinished, target)
        except (OSError, driver().Error) as error:
            unfinished.unlink(missing_ok=True)
            if not isinstance(error, OSError) and _code(error) not in (FULL, IOERR):
                raise self._explain(error) from error
            raise DiskFull(
                f"no backup of {self.path} could be written to {target} ({error}), which a migration "
                "requires; free at least the size of the database"
            ) from error
        return target

    def copy(self, connection: sa.Connection, target: Path, on_step: Callable[[], None] = lambda: None) -> None:
        """Copies the snapshot of the transaction. ``on_step`` is called regularly and may raise to abort."""
        connection.exec_driver_sql("SELECT 1 FROM sqlite_master").close()  # starts the snapshot
        source = connection.connection.driver_connection
        assert source is not None  # only a detached connection has none
        with closing(driver().connect(str(target))) as copy:
            source.backup(copy, pages=PAGES, progress=lambda *_: on_step())

    def size_bytes(self) -> int:
        return sum(map(_size, self.files))

    @property
    def files(self) -> tuple[Path, ...]:
        """The database and its WAL files."""
        return tuple(self.path.with_name(f"{self.path.name}{suffix}") for suffix in ("", "-wal", "-shm"))

    @property
    def artifacts_folder(self) -> Path:
        """Named after the whole file name: x.db and x.sqlite are two databases."""
        return self.path.with_name(f"{self.path.name}-artifacts")

    @property
    def lock_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.dispatcher.lock")

    def try_lock(self) -> DispatcherLock | None:
        """Tries several times, since ``is_locked`` of another process holds the lock for an instant."""
        self._make_folder()
        refuse_network_file_system(self.path)
        for attempt in range(LOCK_TRIES):
            if attempt:
                time.sleep(LOCK_PAUSE_S)
            if (handle := self._flock(fcntl.LOCK_EX)) is not None:
                _write_notice(handle, "")  # left by a killed dispatcher
                return DispatcherLock(lambda: os.close(handle), set_notice=lambda notice: _write_notice(handle, notice))
        return None

    def is_locked(self) -> bool:
        if not self.lock_path.exists():
            return False
        handle = self._flock(fcntl.LOCK_SH)
        if handle is not None:
            os.close(handle)
        return handle is None

    def dispatcher_notice(self) -> str:
        pid = lock_holder(self.lock_path, "FLOCK")
        dispatcher = find_process(pid, pid) if pid else None
        if dispatcher is not None and dispatcher.is_stopped:
            return f"The engine is not responding (process {dispatcher.pid}): {dispatcher.advice}"
        try:
            return self.lock_path.read_text()
        except OSError:
            return ""

    def writer(self) -> LockHolder | None:
        pid = lock_holder(self.files[-1], "POSIX", WRITE_LOCK)
        return find_process(pid, lock_holder(self.lock_path, "FLOCK")) if pid and pid != os.getpid() else None

    def _flock(self, kind: int) -> int | None:
        """The lock file is never deleted: otherwise two processes could lock two files of the same name."""
        try:
            access = os.O_RDWR if kind == fcntl.LOCK_EX else os.O_RDONLY  # who may only read still sees the lock
            handle = os.open(self.lock_path, access | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(
                f"cannot write {self.lock_path} ({error.strerror}); check the owner, the permissions and the free "
                "space of the folder, or set DATABASE_URL to a file in another folder"
            ) from error
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    def explain(self, error: DBAPIError) -> StorageError:
        return self._explain(error.orig)

    def _explain(self, error: BaseException | None) -> StorageError:
        code, text = _code(error), str(error)
        if code in (FULL, IOERR):  # an exceeded quota, and a disk too full to open a file, are IOERR
            return DiskFull(
                f"{self.path} cannot be written ({text}): the disk or a quota is full, or the disk is failing; free "
                "some space, and check the disk if there is enough"
            )
        if code in (BUSY, LOCKED):
            return self._locked()
        if code in (NOTADB, CORRUPT):
            return NotADatabase(
                f"{self.path} is not a usable database ({text}); move it and {self.artifacts_folder.name} away to "
                f"start afresh, or put a backup ({self.path.name}.backup-*.db) in its place"
            )
        if "no such table" in text or "no such column" in text:
            return SchemaOutdated(
                f"the tables of {self.path} are missing or old ({text}); start the app, which migrates them"
            )
        return StorageError(f"{self.path}: {text}; {self._advice(code)}")

    def _locked(self) -> DatabaseLocked:
        by, advice = (
            "another process",
            "close other programs that have it open (a database browser, a copy or backup in progress) and try again",
        )
        if (writer := self.writer()) is not None:
            by, advice = str(writer), writer.advice
        return DatabaseLocked(f"{self.path} was locked by {by} for {self.timeout_s:g} s; {advice}")

    def _advice(self, code: int) -> str:
        if code not in (READONLY, CANTOPEN):
            return "see the log for the statement"
        if self.path.is_dir():
            return "it is a folder: set DATABASE_URL to a file in it, like fedscape.db"
        if not os.access(self.path.parent, os.W_OK):
            return (
                f"even to be read it needs files next to it: make {self.path.parent} writable, or copy the database to "
                "a folder that is"
            )
        if code == READONLY:
            return "the file cannot be written: check its owner and permissions"
        return "the file cannot be opened: check the path and its permissions"


def _code(error: BaseException | None) -> int:
    """The primary result code; 0 if the driver gives none."""
    return (getattr(error, "sqlite_errorcode", None) or CODES.get(str(error), 0)) & 0xFF


def _write_notice(handle: int, notice: str) -> None:
    with suppress(OSError):  # if the disk is full, there is no notice
        data = notice.encode()
        os.ftruncate(handle, os.pwrite(handle, data, 0))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # some exist only while the database is open
        return 0


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def driver() -> ModuleType:
    """SQLite before 3.51.3 can, rarely, corrupt a WAL database; ``pysqlite3`` brings a newer one than most systems."""
    try:
        return importlib.import_module("pysqlite3.dbapi2")
    except ImportError:
        module = importlib.import_module("sqlite3.dbapi2")
    if module.sqlite_version_info < SAFE_VERSION:
        log.warning(
            "SQLite %s can corrupt a database that several processes write (fixed in 3.51.3): pip install pysqlite3",
            module.sqlite_version,
        )
    return module


def refuse_network_file_system(path: Path) -> None:
    mounts = Path("/proc/self/mounts")
    kind = file_system(path.parent, os.fsdecode(mounts.read_bytes())) if mounts.exists() else ""
    if kind in NETWORK_FILE_SYSTEMS:
        raise NetworkFileSystem(
            f"{path} is on a network file system ({kind}), where SQLite's locks are unreliable; set DATABASE_URL to a "
            "file on a local disk (sqlite:////local/path/fedscape.db) or to a PostgreSQL server (postgresql://...)"
        )


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system of ``folder``; ``mounts`` is the content of ``/proc/self/mounts``."""
    kind, longest = "", -1
    for line in filter(None, mounts.split("\n")):
        point, its_kind = line.split(" ")[1:3]
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)  # a space is written \040
        if folder.is_relative_to(point) and len(point) >= longest:  # of equal mount points, the last is on top
            kind, longest = its_kind, len(point)
    return kind
