"""``Store(url)``, the entry point to everything stored. Created once and passed on."""

import os
import time
from contextlib import nullcontext
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from storage import schema
from storage.activity import Activity, current_activity
from storage.analyses import Analyses
from storage.annotations import Annotations
from storage.artifacts import ArtifactStore
from storage.audit import Audit
from storage.backup import Backup, Progress, back_up
from storage.backup_check import CheckRun
from storage.database import BeforeCommit, Database, DispatcherLock, WriteGuard
from storage.disk_use import disk_use
from storage.engines import Engines
from storage.errors import StorageError
from storage.events import Events
from storage.experiments import Experiments
from storage.holders import LockHolder
from storage.metrics import Metrics
from storage.postgres import PostgreSQL
from storage.records import DiskUse
from storage.restore import Restored, restore
from storage.rooms import Rooms
from storage.run_queue import RunQueue
from storage.saved_views import SavedViews
from storage.shares import Shares
from storage.sqlite import SQLite
from storage.studies import Studies
from storage.trash import Trash

RETRY_S = 0.2


class Store:
    """Cheap to create: the database is opened at the first call. Threads may share it; each process creates its own.

    ``artifacts`` is the folder of checkpoints and models; by default next to an SQLite file, and ``ARTIFACTS_DIR``
    (default ``var/artifacts``) for PostgreSQL. ``timeout_s`` limits the wait for other writers; ``writing`` is entered
    around every write, and ``before_commit`` is called in its transaction.

    Every call is one transaction unless it says otherwise: a write is stored as a whole or not at all, and a read sees
    one snapshot. Returned records do not change later. Ids are not reused, so a write to a deleted run
    cannot hit another one. Only the owner of the current epoch can write to a running run or analysis; all others get
    Fenced.
    """

    def __init__(
        self,
        url: str,
        artifacts: Path | None = None,
        timeout_s: float = 10.0,
        writing: WriteGuard = nullcontext,
        before_commit: BeforeCommit = lambda connection: None,
    ) -> None:
        self._database = _database(url, timeout_s, writing, before_commit)
        self.artifacts = ArtifactStore(self._database, artifacts or self._database.artifacts_folder)
        self.experiments = Experiments(self._database, self.artifacts)
        self.queue = RunQueue(self._database, self.artifacts)
        self.trash = Trash(self._database, self.artifacts)
        self.metrics = Metrics(self._database, self.artifacts)
        self.analyses = Analyses(self._database, self.artifacts)
        self.events = Events(self._database)
        self.engines = Engines(self._database)
        self.saved_views = SavedViews(self._database)
        self.annotations = Annotations(self._database)
        self.shares = Shares(self._database)
        self.audit = Audit(self._database)
        self.rooms = Rooms(self._database)
        self.studies = Studies(self._database)

    @staticmethod
    def default_url(root: Path) -> str:
        return Store.url_of(root / "var" / "fedscape.db")

    @staticmethod
    def url_of(path: Path) -> str:
        """The URL of an SQLite file."""
        return sa.URL.create("sqlite", database=str(path)).render_as_string()

    @property
    def url(self) -> str:
        """The URL with an absolute path, so that processes in other folders open the same database."""
        return self._database.url.render_as_string(hide_password=False)

    def close(self) -> None:
        """Closes the connections; the next call opens the database again."""
        self._database.close()

    def needs_migration(self) -> bool:
        """Whether the tables are out of date. Raises SchemaTooNew if a newer version wrote them."""
        return schema.needs_migration(self._database)

    def check_schema(self) -> None:
        """Raises SchemaTooNew or SchemaOutdated unless the tables are those of this program."""
        schema.check(self._database)

    def migrate(self) -> None:
        """Migrates the tables, after a backup next to the file. Requires the dispatcher's lock."""
        schema.migrate(self._database)

    def ensure_schema(self, wait_s: float = 0.0) -> None:
        """Migrates if needed, or waits up to ``wait_s`` for a running dispatcher to do so.

        Raises SchemaOutdated if that takes longer, and SchemaTooNew.
        """
        deadline = time.monotonic() + wait_s
        while self.needs_migration():
            if (lock := self.try_dispatcher_lock()) is not None:
                with lock:
                    self.migrate()
            elif time.monotonic() >= deadline:
                raise schema.outdated(self._database)
            else:
                time.sleep(RETRY_S)

    def activity(self) -> Activity:
        """The current activity: runs in progress, analyses and engines, in one statement."""
        return current_activity(self._database)

    def disk_use(self) -> DiskUse:
        """Bytes used, by purpose, and bytes free."""
        return disk_use(self._database, self.artifacts.folder)

    def back_up(self, path: Path, version: str, progress: Progress = lambda done, total: None) -> Backup:
        """Writes everything into one file, while others keep writing. ``version`` of the program goes into it."""
        return back_up(self._database, self.artifacts, path, version, progress)

    def restore(
        self,
        path: Path,
        replace: bool = False,
        progress: Progress = lambda done, total: None,
        check_run: CheckRun = lambda run: None,
    ) -> Restored:
        """Replaces this database by a backup and saves the old one next to it. ``check_run`` may raise to refuse it.

        Raises StorageError, and changes nothing, if the database is in use, or has runs and ``replace`` is False.
        """
        return restore(self._database, self.artifacts, path, replace, progress, check_run)

    def try_dispatcher_lock(self) -> DispatcherLock | None:
        """The lock that is required to claim runs and to migrate; None while another process holds it."""
        return self._database.try_lock()

    def dispatcher_is_running(self) -> bool:
        return self._database.is_locked()

    def dispatcher_notice(self) -> str:
        """Why the current dispatcher cannot work, as far as this machine can tell; usually empty.

        Needs no database lock, so it works even while the database is locked.
        """
        return self._database.dispatcher_notice()

    def writer(self) -> LockHolder | None:
        """The process that currently blocks all other writers, or None if unknown."""
        return self._database.writer()


def store_from_env(root: Path) -> Store:
    """The store of ``DATABASE_URL``, or a file under ``var/`` of the project's root."""
    return Store(os.environ.get("DATABASE_URL") or Store.default_url(root))


def _database(url: str, timeout_s: float, writing: WriteGuard, before_commit: BeforeCommit) -> Database:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StorageError(f"{url!r} is not a database URL; use sqlite:///path/file.db or postgresql://...") from error
    kinds: dict[str, type[Database]] = {"sqlite": SQLite, "postgresql": PostgreSQL}
    kind = parsed.get_backend_name()
    if kind not in kinds:
        raise StorageError(f"{kind!r} databases are not supported; use sqlite:///... or postgresql://...")
    if kind == "sqlite" and "?" in url:  # SQLAlchemy would cut off the path there
        raise StorageError(f"{url!r} has a ?, but SQLite URLs have no options; write a ? in the path as %3F")
    return kinds[kind](parsed, timeout_s, writing, before_commit)
