"""A backup in the place of a database. Everything is unpacked beside it and checked first; then names change.

The database that was there, with its artifacts, is kept under another name.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from storage import schema
from storage.archive import BACKUP, Archive, sync_folder
from storage.artifacts import OURS
from storage.backup import ARTIFACTS, DATABASE, Progress, file_of
from storage.database import Database
from storage.errors import ArchiveInvalid, DatabaseLocked, NotADatabase, SchemaTooNew, StorageError
from storage.models import Run, now
from storage.sqlite import SQLite, driver

Move = tuple[Path, Path]


@dataclass(frozen=True)
class Restored:
    """``kept`` is the database that was there, None where there was none."""

    runs: int
    kept: Path | None


def restore(database: Database, artifacts: Path, path: Path, replace: bool, progress: Progress) -> Restored:
    """Raises StorageError, and has changed nothing then, where it cannot be done as a whole."""
    target = file_of(database, "restore what pg_dump wrote with pg_restore, and put the artifacts back into")
    with Archive(path, BACKUP) as archive, _dispatcher_away(target):
        _check_schema(archive)
        if not replace:
            _refuse_where_there_are_runs(target)
        with _room_beside(target) as room:
            _unpack(archive, room, progress)
            _close_for_all(target)
            kept = target.path.with_name(f"{target.path.name}.replaced-{now():%Y%m%d-%H%M%S}.db")
            was_there = _take_place(room, target, artifacts, kept)
        return Restored(int(archive.facts["runs"]), kept if was_there else None)


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


def _check_schema(archive: Archive) -> None:
    revision = archive.facts.get("schema")
    if revision not in schema.revisions():
        raise SchemaTooNew(
            f"{archive.path} was written by a newer version (schema {revision}, this program knows up to "
            f"{schema.revisions()[-1]}); update the program, then restore"
        )


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
    """On the same disk, so that what lies there can be renamed."""
    room = target.path.with_name(f"{target.path.name}.restoring")
    shutil.rmtree(room, ignore_errors=True)  # of somebody who was killed
    try:
        room.mkdir(parents=True)
        yield room
    except OSError as error:
        raise StorageError(
            f"cannot restore to {target.path} ({error.strerror or error}); free some space on its disk, and check "
            "the owner of its folder"
        ) from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _unpack(archive: Archive, room: Path, progress: Progress) -> None:
    done, total = 0, sum(member.size_bytes for member in archive.members.values())

    def tell(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    (room / ARTIFACTS).mkdir()
    for name in (DATABASE, *(name for name in archive.members if name != DATABASE)):
        if name != DATABASE and not (name.startswith(f"{ARTIFACTS}/") and OURS.fullmatch(name.partition("/")[2])):
            raise ArchiveInvalid(f"{archive.path}: {name!r} is no name that a backup has; get the file again")
        archive.extract(name, room / name, tell)


def _close_for_all(target: SQLite) -> None:
    """All that was written is in the one file, and nobody has it open. Raises DatabaseLocked."""
    target.close()
    if not target.path.exists():
        return
    try:
        with closing(driver().connect(str(target.path), timeout=0)) as connection:
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except driver().OperationalError:
        mode = "locked"
    except driver().DatabaseError:
        return  # damaged: it is kept with all that lies around it
    if mode != "delete":
        raise DatabaseLocked(f"{target.path} is open in another program; stop the app, or what reads it, then restore")


def _take_place(room: Path, target: SQLite, artifacts: Path, kept: Path) -> bool:
    """Answers whether there was a database."""
    aside = [(file, kept.with_name(file.name.replace(target.path.name, kept.name, 1))) for file in target.files]
    old: list[Move] = [*aside, (artifacts, kept.with_name(f"{kept.name}-artifacts"))]
    moves = [move for move in old if os.path.lexists(move[0])]
    was_there = target.path.exists()
    _rename([*moves, (room / ARTIFACTS, artifacts), (room / DATABASE, target.path)])
    sync_folder(target.path.parent)
    return was_there


def _rename(moves: Sequence[Move]) -> None:
    """All of them, or none."""
    done: list[Move] = []
    try:
        for move in moves:
            os.rename(*move)
            done.append(move)
    except BaseException:
        for source, target in reversed(done):
            os.rename(target, source)
        raise
