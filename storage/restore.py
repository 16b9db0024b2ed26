"""A backup in the place of a database. All of it is unpacked beside it and checked, and then it changes places at once.

In this order, so that a kill at any moment leaves the one database or the other, each with all its artifacts:

    1. unpack into <database>.restoring and check: the archive, the tables, every row, every artifact
    2. copy the database that is there, and link its artifacts, to where they are kept: <database>.replaced-<time>.db
    3. link the new artifacts into the folder, under names that nothing there has
    4. write the new pages over the old ones in one transaction of SQLite: its commit makes the backup the database
    5. remove the artifacts of the database that was there, and what was unpacked

A kill before 4 leaves the old database as it was, and so does a kill in 4: SQLite rolls back when it is next opened.
What a kill may leave behind: the copy of 2, which is whole; what was unpacked, which the next restore removes;
artifacts that no row names, which the next start of the app removes.
"""

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
from storage.artifacts import ArtifactStore
from storage.backup import ARTIFACTS, DATABASE, Progress, file_of
from storage.backup_check import CheckRun, check_file, check_rows
from storage.confined import NAME, ArtifactFolder
from storage.database import Database
from storage.errors import ArchiveInvalid, DatabaseLocked, NotADatabase, SchemaTooNew, StorageError
from storage.models import Artifact, Run, now
from storage.sqlite import BUSY, LOCKED, PAGES, SQLite, driver


@dataclass(frozen=True)
class Restored:
    """``kept`` is the database that was there, None where there was none."""

    runs: int
    kept: Path | None


def restore(
    database: Database, artifacts: ArtifactStore, path: Path, replace: bool, progress: Progress, check_run: CheckRun
) -> Restored:
    """Raises StorageError, and has changed nothing then, where it cannot be done as a whole."""
    target = file_of(database, "restore what pg_dump wrote with pg_restore, and put the artifacts back into")
    with Archive(path, BACKUP) as archive, _dispatcher_away(target):
        revision = _revision(archive)
        if not replace:
            _refuse_where_there_are_runs(target)
        with _room_beside(target) as room:
            _unpack(archive, room, progress)
            runs = _checked(archive, room, revision, check_run)
            new = _renamed(room, artifacts.files)
            return Restored(runs, _take_place(room, new, target, artifacts))


@contextmanager
def _dispatcher_away(target: SQLite) -> Iterator[None]:
    lock = target.try_lock()
    if lock is None:
        raise StorageError(
            f"the runs of {target.path} are being computed; stop the app, or the worker (Ctrl-C where it was started), "
            "then restore"
        )
    with lock:
        yield


def _revision(archive: Archive) -> str:
    revision = archive.facts.get("schema")
    if not isinstance(revision, str) or not revision.isdecimal():
        raise ArchiveInvalid(f"{archive.path}: its manifest has no schema; get the file again")
    if revision not in schema.revisions():
        raise SchemaTooNew(
            f"{archive.path} was written by a newer version (schema {revision[:20]}, this program knows up to "
            f"{schema.revisions()[-1]}); update the program, then restore"
        )
    return revision


def _refuse_where_there_are_runs(target: SQLite) -> None:
    try:
        runs = _num_runs(target)
    except NotADatabase as error:
        raise StorageError(f"{error}; --replace keeps it beside the backup's") from error
    if runs:
        raise StorageError(
            f"{target.path} has {runs} runs; --replace puts the backup in their place, and keeps them in a file beside"
        )


def _num_runs(target: SQLite) -> int:
    if not target.path.exists():
        return 0
    with target.read() as connection:
        if not sa.inspect(connection).has_table(Run.__tablename__):
            return 0
        return int(connection.scalar(sa.select(sa.func.count()).select_from(Run)) or 0)


@contextmanager
def _room_beside(target: SQLite) -> Iterator[Path]:
    """On the same disk, so that files can be linked from it."""
    room = target.path.with_name(f"{target.path.name}.restoring")
    shutil.rmtree(room, ignore_errors=True)  # of a restore that was killed
    try:
        room.mkdir(parents=True)
        yield room
    except (OSError, driver().Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StorageError(
            f"cannot restore to {target.path} ({reason}); free some space on its disk, and check the owner of its "
            "folder"
        ) from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


# Unpacked and checked.


def _unpack(archive: Archive, room: Path, progress: Progress) -> None:
    done, total = 0, sum(member.size_bytes for member in archive.members.values())

    def tell(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    (room / ARTIFACTS).mkdir()
    for name in (DATABASE, *(name for name in archive.members if name != DATABASE)):
        if name != DATABASE and not NAME.fullmatch(_artifact(name)):
            raise ArchiveInvalid(f"{archive.path}: {name[:100]!r} is no name that a backup has; get the file again")
        archive.extract(name, room / name, tell)


def _artifact(name: str) -> str:
    """Of a member; nothing where it is none."""
    return name.removeprefix(f"{ARTIFACTS}/") if name.startswith(f"{ARTIFACTS}/") else ""


def _checked(archive: Archive, room: Path, revision: str, check_run: CheckRun) -> int:
    """How many runs there are. The unpacked database has the newest tables then."""
    files = {_artifact(name): member for name, member in archive.members.items() if name != DATABASE}
    try:
        check_file(room / DATABASE, revision)
        with closing(_opened(room)) as database:
            _bring_up_to_date(database, revision)
            runs = check_rows(database, files, check_run)
    except ArchiveInvalid as error:
        raise ArchiveInvalid(f"{archive.path}: {error}") from error
    if (said := archive.facts.get("runs")) != runs:
        raise ArchiveInvalid(f"{archive.path}: its database has {runs} runs, but its manifest says {said!r:.40}")
    return runs


def _bring_up_to_date(database: SQLite, revision: str) -> None:
    if revision == schema.revisions()[-1]:
        return
    try:
        schema.upgrade(database)
    except StorageError as error:
        raise ArchiveInvalid(f"its tables cannot be brought up to date ({error})") from error


def _opened(room: Path) -> SQLite:
    return SQLite(sa.URL.create("sqlite", database=str(room / DATABASE)), timeout_s=10.0)


def _renamed(room: Path, folder: ArtifactFolder) -> dict[str, Path]:
    """Every artifact of the backup under a name that no other file has, in the unpacked rows too."""
    new = {}
    with closing(_opened(room)) as database, database.write() as connection:
        rows = connection.execute(sa.select(Artifact.id, Artifact.run_id, Artifact.kind, Artifact.round, Artifact.path))
        for row in rows.all():
            name = folder.new_name(row.run_id, row.kind, row.round)
            connection.execute(sa.update(Artifact).where(Artifact.id == row.id).values(path=name))
            new[name] = room / ARTIFACTS / row.path
    return new


# Changing places.


def _take_place(room: Path, new: Mapping[str, Path], target: SQLite, artifacts: ArtifactStore) -> Path | None:
    """Answers where the database that was there is kept, None where there was none."""
    was_there = any(file.exists() and file.stat().st_size for file in target.files)
    kept = _free_name(target) if was_there else None
    old, undo = list(artifacts.files.names()), list[Callable[[], None]]()
    try:
        with _locked(target) as place:
            if kept is not None:
                undo.append(lambda: _forget(kept))
                _keep(room, target, place, artifacts.files, old, kept)
            undo.append(lambda: artifacts.remove_files(new))
            for name, source in new.items():
                artifacts.files.take(source, name)
            if new:
                sync_folder(artifacts.folder)
            _write_over(room, target, place)
    except BaseException:
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
def _locked(target: SQLite) -> Iterator[Any]:
    """A connection beside which nobody reads or writes, until it ends; None where the file is damaged.

    Raises DatabaseLocked where somebody has the database open.
    """
    target.close()
    is_new = not target.path.exists()
    connection = driver().connect(str(target.path), timeout=0, isolation_level=None)
    try:
        with closing(connection):
            yield connection if _is_ours_alone(connection, target) else None
    except BaseException:
        if is_new:
            target.path.unlink(missing_ok=True)
        raise


def _is_ours_alone(connection: Any, target: SQLite) -> bool:
    """Locks it; False for a file that is no database."""
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # from the first lock on until the end
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
        raise DatabaseLocked(f"{target.path} is open in another program; stop the app, or what reads it, then restore")
    return True


def _keep(room: Path, target: SQLite, place: Any, artifacts: ArtifactFolder, old: list[str], kept: Path) -> None:
    """The database that is there under another name, with its artifacts: whole before the name is there."""
    unfinished = room / "kept"
    unfinished.mkdir()
    copies = ArtifactFolder(unfinished / f"{kept.name}-artifacts")
    for name in old:
        copies.take(artifacts.path / name, name)
    if place is None:  # with what belongs to it, in case somebody mends it
        for file in filter(Path.exists, reversed(target.files)):
            shutil.copyfile(file, unfinished / f"{kept.name}{file.name.removeprefix(target.path.name)}")
    else:
        with closing(driver().connect(str(unfinished / kept.name))) as copy:
            place.backup(copy, pages=PAGES)
    for file in sorted(unfinished.iterdir(), reverse=True):  # the database last
        os.rename(file, kept.with_name(file.name))
    sync_folder(kept.parent)


def _forget(kept: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            kept.with_name(f"{kept.name}{suffix}").unlink(missing_ok=True)
    shutil.rmtree(kept.with_name(f"{kept.name}-artifacts"), ignore_errors=True)


def _write_over(room: Path, target: SQLite, place: Any) -> None:
    """The one moment: SQLite's commit, or, in the place of a file that is no database, a rename."""
    with closing(driver().connect(str(room / DATABASE))) as new:
        new.execute("PRAGMA journal_mode=DELETE").close()  # all of it in the one file
        if place is not None:
            new.backup(place, pages=PAGES)
            return
    for file in target.files[1:]:  # a log of another file
        file.unlink(missing_ok=True)
    os.replace(room / DATABASE, target.path)
    sync_folder(target.path.parent)
