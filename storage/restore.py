"""Replaces a database by a backup. Everything is unpacked and checked first; the switch is atomic.

The order makes sure that a kill at any moment leaves either the old or the new database, with all its artifacts:

    1. unpack into <database>.restoring and check: the archive, the tables, every row, every artifact
    2. copy the current database, and link its artifacts, to <database>.replaced-<time>.db
    3. link the new artifacts into the artifacts folder, under unused names
    4. write the new pages over the old ones in one SQLite transaction: its commit is the switch
    5. delete the artifacts of the old database and the unpacked files

A kill before or during step 4 leaves the old database: SQLite rolls back when it is next opened. A kill can leave
behind: the copy of step 2, which is complete; unpacked files, which the next restore deletes; artifacts without a row,
which the next start of the app deletes.

An error undoes everything, and so does an interrupt, unless it arrives during step 4: then it is like a kill.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from storage import schema
from storage.archive import BACKUP, Archive, sync_folder
from storage.artifact_folder import NAME, ArtifactFolder
from storage.artifacts import ArtifactStore
from storage.backup import ARTIFACTS, DATABASE, Progress, file_of
from storage.backup_check import CheckRun, check_file, check_rows
from storage.database import Database
from storage.errors import ArchiveInvalid, DatabaseLocked, NotADatabase, SchemaTooNew, StorageError
from storage.models import Artifact, Run, now
from storage.sqlite import BUSY, LOCKED, PAGES, SQLite, driver

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    """A finished restore; ``previous`` is a copy of the replaced database, None if there was none."""

    runs: int
    previous: Path | None


def restore(
    database: Database, artifacts: ArtifactStore, path: Path, replace: bool, progress: Progress, check_run: CheckRun
) -> Restored:
    """Replaces the database. Raises StorageError, and changes nothing, if it cannot be done completely."""
    target = file_of(database, "restore the dump with pg_restore, and copy the artifacts to")
    with Archive(path, BACKUP) as archive, _holding_dispatcher_lock(target):
        revision = _revision(archive)
        if not replace:
            _refuse_to_replace_runs(target)
        with _temporary_folder(target) as folder:
            _unpack(archive, folder, progress)
            runs = _check_unpacked(archive, folder, revision, check_run)
            new = _rename_artifacts(folder, artifacts.files)
            return Restored(runs, _switch(folder, new, target, artifacts))


@contextmanager
def _holding_dispatcher_lock(target: SQLite) -> Iterator[None]:
    lock = target.try_lock()
    if lock is None:
        raise StorageError(
            f"an engine is running on {target.path}; stop the app or the worker (Ctrl-C in its terminal), then restore"
        )
    with lock:
        yield


def _revision(archive: Archive) -> str:
    revision = archive.facts.get("schema")
    if not isinstance(revision, str) or not revision.isdecimal():
        raise ArchiveInvalid(f"{archive.path}: its manifest lacks the schema; get the file again")
    if revision not in schema.revisions():
        raise SchemaTooNew(
            f"{archive.path} was written by a newer version (schema {revision[:20]}, this program supports up to "
            f"{schema.revisions()[-1]}); update the program, then restore"
        )
    return revision


def _refuse_to_replace_runs(target: SQLite) -> None:
    try:
        runs = _num_runs(target)
    except NotADatabase as error:
        raise StorageError(f"{error}; --replace moves it aside") from error
    if runs:
        found = "1 run" if runs == 1 else f"{runs} runs"
        raise StorageError(
            f"{target.path} has {found}; --replace restores the backup and saves the current database in a file "
            "beside it"
        )


def _num_runs(target: SQLite) -> int:
    if not target.path.exists():
        return 0
    with target.read() as connection:
        if not sa.inspect(connection).has_table(Run.__tablename__):
            return 0
        return int(connection.scalar(sa.select(sa.func.count()).select_from(Run)) or 0)


@contextmanager
def _temporary_folder(target: SQLite) -> Iterator[Path]:
    """A temporary folder on the same disk, so that its files can be linked."""
    folder = target.path.with_name(f"{target.path.name}.restoring")
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed restore
    try:
        folder.mkdir(parents=True)
        yield folder
    except (OSError, driver().Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StorageError(
            f"cannot restore to {target.path} ({reason}); free some space on its disk, and check the permissions of "
            "its folder"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Unpack and check.


def _unpack(archive: Archive, folder: Path, progress: Progress) -> None:
    done, total = 0, sum(member.size_bytes for member in archive.members.values())

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    (folder / ARTIFACTS).mkdir()
    for name in (DATABASE, *(name for name in archive.members if name != DATABASE)):
        if name != DATABASE and not NAME.fullmatch(_artifact_name(name)):
            raise ArchiveInvalid(f"{archive.path}: {name[:100]!r} is not a valid name in a backup; get the file again")
        archive.extract(name, folder / name, count)


def _artifact_name(name: str) -> str:
    """The artifact name of a member; empty if it is not an artifact."""
    return name.removeprefix(f"{ARTIFACTS}/") if name.startswith(f"{ARTIFACTS}/") else ""


def _check_unpacked(archive: Archive, folder: Path, revision: str, check_run: CheckRun) -> int:
    """Checks the unpacked backup and migrates it to the current schema. Returns its number of runs."""
    files = {_artifact_name(name): member for name, member in archive.members.items() if name != DATABASE}
    try:
        check_file(folder / DATABASE, revision)
        with closing(_open_unpacked(folder)) as database:
            _bring_up_to_date(database, revision)
            runs = check_rows(database, files, check_run)
            if (claimed := archive.facts.get("runs")) != runs:
                raise ArchiveInvalid(f"its manifest states {claimed!r:.40} runs, but its database has {runs}")
    except ArchiveInvalid as error:
        raise ArchiveInvalid(f"{archive.path}: {error}; get the file again, or restore another backup") from error
    return runs


def _bring_up_to_date(database: SQLite, revision: str) -> None:
    if revision == schema.revisions()[-1]:
        return
    try:
        schema.upgrade(database)
    except StorageError as error:
        raise ArchiveInvalid(f"its tables cannot be migrated ({error})") from error


def _open_unpacked(folder: Path) -> SQLite:
    return SQLite(sa.URL.create("sqlite", database=str(folder / DATABASE)), timeout_s=10.0)


def _rename_artifacts(folder: Path, target_folder: ArtifactFolder) -> dict[str, Path]:
    """Gives every artifact of the backup an unused name, in the unpacked rows as well."""
    new = {}
    with closing(_open_unpacked(folder)) as database, database.write() as connection:
        rows = connection.execute(sa.select(Artifact.id, Artifact.run_id, Artifact.kind, Artifact.round, Artifact.path))
        for row in rows.all():
            name = target_folder.new_name(row.run_id, row.kind, row.round)
            connection.execute(sa.update(Artifact).where(Artifact.id == row.id).values(path=name))
            new[name] = folder / ARTIFACTS / row.path
    return new


# Switch.


def _switch(folder: Path, new: Mapping[str, Path], target: SQLite, artifacts: ArtifactStore) -> Path | None:
    """Returns the path of the saved old database, None if there was none."""
    exists = any(file.exists() and file.stat().st_size for file in target.files)
    kept = _free_name(target) if exists else None
    old, undo, may_be_switched = list(artifacts.files.names()), list[Callable[[], None]](), False
    if not target.path.exists():
        undo.append(lambda: target.path.unlink(missing_ok=True))
    try:
        with _exclusive_connection(target) as connection:
            if kept is not None:
                undo.append(lambda: _delete_kept(kept))
                _save_current(folder, target, connection, artifacts.files, old, kept)
            undo.append(lambda: artifacts.remove_files(new))
            for name, source in new.items():
                artifacts.files.link(source, name)
            if new:
                sync_folder(artifacts.folder)
            may_be_switched = True
            _overwrite(folder, target, connection)
            undo.clear()
    except BaseException as error:
        # An interrupt may have arrived just after the commit.
        if isinstance(error, Exception) or not may_be_switched:
            for step in reversed(undo):
                step()
        raise
    artifacts.remove_files(old)
    return kept


def _free_name(target: SQLite) -> Path:
    stem = f"{target.path.name}.replaced-{now():%Y%m%d-%H%M%S}"
    names = (target.path.with_name(f"{stem}{again}.db") for again in ("", *(f"-{i}" for i in range(2, 1000))))
    return next(name for name in names if not os.path.lexists(name))


@contextmanager
def _exclusive_connection(target: SQLite) -> Iterator[Any]:
    """An exclusive connection, which keeps out readers and writers until it ends; None if the file is damaged.

    Raises DatabaseLocked if the database is in use.
    """
    target.close()
    with closing(driver().connect(str(target.path), timeout=0, isolation_level=None)) as connection:
        yield connection if _lock(connection, target) else None


def _lock(connection: Any, target: SQLite) -> bool:
    """Locks the file; False if it is not a database."""
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # keeps every lock until the end
        mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except driver().OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (BUSY, LOCKED):
            raise
        mode = "locked"
    except driver().DatabaseError:
        return False
    if mode != "delete":
        raise DatabaseLocked(f"{target.path} is in use; stop the app and all other programs that use it, then restore")
    return True


def _save_current(
    folder: Path, target: SQLite, connection: Any, artifacts: ArtifactFolder, old: list[str], kept: Path
) -> None:
    """Saves the current database and its artifacts; they get their final names once they are complete."""
    incomplete = folder / "kept"
    incomplete.mkdir()
    copies = ArtifactFolder(incomplete / f"{kept.name}-artifacts")
    for name in old:
        copies.link(artifacts.path / name, name)
    if connection is None:  # with its -wal and -shm files, in case it can be repaired
        for file in filter(Path.exists, reversed(target.files)):
            shutil.copyfile(file, incomplete / f"{kept.name}{file.name.removeprefix(target.path.name)}")
    else:
        with closing(driver().connect(str(incomplete / kept.name))) as copy:
            connection.backup(copy, pages=PAGES)
    for file in sorted(incomplete.iterdir(), reverse=True):  # the database last
        os.rename(file, kept.with_name(file.name))
    sync_folder(kept.parent)


def _delete_kept(kept: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            kept.with_name(f"{kept.name}{suffix}").unlink(missing_ok=True)
    shutil.rmtree(kept.with_name(f"{kept.name}-artifacts"), ignore_errors=True)


def _overwrite(folder: Path, target: SQLite, connection: Any) -> None:
    """The atomic switch: SQLite's commit, or a rename if the file is not a database."""
    with closing(driver().connect(str(folder / DATABASE))) as new:
        new.execute("PRAGMA journal_mode=DELETE").close()  # everything in one file
        if connection is not None:
            new.backup(connection, pages=PAGES)
            return
    for file in target.files[1:]:  # they belong to the old database
        file.unlink(missing_ok=True)
    os.replace(folder / DATABASE, target.path)
    try:
        sync_folder(target.path.parent)
    except OSError as error:  # too late to undo
        log.warning("%s was restored, but a power cut could undo it (%s); check its disk", target.path, error.strerror)
