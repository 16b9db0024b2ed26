"""The one door to everything that is stored: ``Store(url)``, passed in, opened nowhere else."""

import os
import time
from contextlib import nullcontext
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from storage import schema
from storage.activity import Glance, glance
from storage.analyses import Analyses
from storage.artifacts import ArtifactStore
from storage.backup import Backup, Progress, back_up
from storage.backup_check import CheckRun
from storage.database import Database, DispatcherLock, Writing
from storage.disk_use import disk_use
from storage.engines import Engines
from storage.errors import StorageError
from storage.events import Events
from storage.experiments import Experiments
from storage.holders import Holder
from storage.metrics import Metrics
from storage.postgres import PostgreSQL
from storage.records import DiskUse
from storage.restore import Restored, restore
from storage.run_queue import RunQueue
from storage.saved_views import SavedViews
from storage.sqlite import SQLite
from storage.trash import Trash

RETRY_S = 0.2


class Store:
    """Cheap to make: the database is opened at the first call. Threads may share one; each process makes its own.

    ``artifacts`` is the folder of checkpoints and models; unless given it lies beside an SQLite file, and is
    ``ARTIFACTS_DIR`` (default ``var/artifacts``) for PostgreSQL. ``timeout_s`` is how long to wait for other writers;
    ``writing`` is entered around every write.
    """

    def __init__(
        self, url: str, artifacts: Path | None = None, timeout_s: float = 10.0, writing: Writing = nullcontext
    ) -> None:
        self._database = _database(url, timeout_s, writing)
        self.artifacts = ArtifactStore(self._database, artifacts or self._database.artifacts_folder)
        self.experiments = Experiments(self._database, self.artifacts)
        self.queue = RunQueue(self._database, self.artifacts)
        self.trash = Trash(self._database, self.artifacts)
        self.metrics = Metrics(self._database, self.artifacts)
        self.analyses = Analyses(self._database, self.artifacts)
        self.events = Events(self._database)
        self.engines = Engines(self._database)
        self.saved_views = SavedViews(self._database)

    @staticmethod
    def default_url(root: Path) -> str:
        return f"sqlite:///{root / 'var' / 'fedscape.db'}"

    @property
    def url(self) -> str:
        """With an absolute path, so that a process started elsewhere opens the same database."""
        return self._database.url.render_as_string(hide_password=False)

    def close(self) -> None:
        """Gives connections back; the next call opens the database again."""
        self._database.close()

    def needs_migration(self) -> bool:
        """Raises SchemaTooNew where the database was written by a newer version."""
        return schema.needs_migration(self._database)

    def check_schema(self) -> None:
        """Raises SchemaTooNew or SchemaOutdated."""
        schema.check(self._database)

    def migrate(self) -> None:
        """Brings the tables up to date, after a backup beside the file. Only while holding the dispatcher's lock."""
        schema.migrate(self._database)

    def ensure_schema(self, wait_s: float = 0.0) -> None:
        """Migrates if that is needed, or gives the dispatcher that is there ``wait_s`` to do it; then checks."""
        deadline = time.monotonic() + wait_s
        while self.needs_migration():
            if (lock := self.try_dispatcher_lock()) is not None:
                with lock:
                    self.migrate()
            elif time.monotonic() >= deadline:
                break
            else:
                time.sleep(RETRY_S)
        self.check_schema()

    def glance(self) -> Glance:
        """What is under way and who computes, in one statement."""
        return glance(self._database)

    def disk_use(self) -> DiskUse:
        """How many bytes lie where, and how many are free."""
        return disk_use(self._database, self.artifacts.folder)

    def back_up(self, path: Path, version: str, progress: Progress = lambda done, total: None) -> Backup:
        """All of it in one file, while others write. ``version`` of the program is noted in it."""
        return back_up(self._database, self.artifacts, path, version, progress)

    def restore(
        self,
        path: Path,
        replace: bool = False,
        progress: Progress = lambda done, total: None,
        check_run: CheckRun = lambda run: None,
    ) -> Restored:
        """A backup becomes this database; what was there is kept beside it. ``check_run`` may refuse it by raising.

        Raises StorageError, and changes nothing, while anybody has it open, or where it has runs and ``replace`` is
        not said.
        """
        return restore(self._database, self.artifacts, path, replace, progress, check_run)

    def try_dispatcher_lock(self) -> DispatcherLock | None:
        """The right to claim runs and to migrate, or None while another process has it. Ends with the process."""
        return self._database.try_lock()

    def dispatcher_is_running(self) -> bool:
        return self._database.is_locked()

    def dispatcher_notice(self) -> str:
        """What keeps the dispatcher that is there from working, as far as this machine knows; mostly empty.

        Needs no lock: it answers also while nobody can write.
        """
        return self._database.dispatcher_notice()

    def writer(self) -> Holder | None:
        """The process that keeps everyone else from writing at this moment; None where nobody is known to."""
        return self._database.writer()


def store_from_env(root: Path) -> Store:
    """``DATABASE_URL``, or a file under ``var/`` of the project's root."""
    return Store(os.environ.get("DATABASE_URL") or Store.default_url(root))


def _database(url: str, timeout_s: float, writing: Writing) -> Database:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise StorageError(f"{url!r} is no database URL; write sqlite:///path/file.db or postgresql://...") from error
    kinds: dict[str, type[Database]] = {"sqlite": SQLite, "postgresql": PostgreSQL}
    kind = parsed.get_backend_name()
    if kind not in kinds:
        raise StorageError(f"no support for {kind!r} databases; DATABASE_URL may be sqlite:///... or postgresql://...")
    return kinds[kind](parsed, timeout_s, writing)
