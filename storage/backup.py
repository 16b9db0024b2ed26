"""A whole database as one file: its rows, and the artifacts that they point to. Others may write meanwhile.

The rows and the list of artifacts are of one moment. What a running run replaces every few seconds, its checkpoints,
is packed at once; of the artifacts of runs that have ended nothing changes.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from storage import schema
from storage.archive import BACKUP, ArchiveWriter, new_archive
from storage.artifacts import COLUMNS, ArtifactStore
from storage.database import Database
from storage.errors import ArtifactDamaged, StorageError
from storage.models import Artifact, Run, now
from storage.records import FINISHED, ArtifactRecord
from storage.sqlite import SQLite, driver

DATABASE, ARTIFACTS = "fedscape.db", "artifacts"  # the members
CHECKPOINT = "checkpoint"

Progress = Callable[[int, int], None]  # bytes done, of how many


@dataclass(frozen=True)
class Backup:
    """What came to lie in the file; ``left_out`` says of each artifact that could not be read why."""

    path: Path
    runs: int
    size_bytes: int
    left_out: tuple[str, ...]


def back_up(database: Database, artifacts: ArtifactStore, path: Path, version: str, progress: Progress) -> Backup:
    """Raises StorageError, and leaves no file, where not all of it can be written."""
    source = file_of(database, "back it up with pg_dump while no run computes, and copy the folder of artifacts")
    schema.check(source)
    if path.exists() and path.resolve() in {file.resolve() for file in source.files}:
        raise StorageError(f"{path} is the database itself; give the backup another name")
    done = 0

    def tell(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    with new_archive(path, BACKUP, tell) as archive, _scratch(path) as copy:
        with source.read() as connection:
            there, doomed = _artifacts(connection)
            total = source.size_bytes() + sum(record.size_bytes for record in there)
            packer = _Packer(archive, artifacts)
            packer.add(record for record in there if record.kind == CHECKPOINT)
            source.copy(connection, copy, lambda: tell(0))
        packer.add(record for record in there if record.kind != CHECKPOINT)
        runs = _forget(copy, doomed + packer.lost)
        total = done + copy.stat().st_size  # now that it is known how large it is
        archive.add_file(DATABASE, copy)
        archive.facts = {
            "version": version,
            "schema": schema.revisions()[-1],
            "written_at": now().isoformat(),
            "runs": runs,
        }
    return Backup(path, runs, path.stat().st_size, tuple(packer.left_out))


def file_of(database: Database, instead: str) -> SQLite:
    """Raises StorageError where the database is not a file."""
    if not isinstance(database, SQLite):
        raise StorageError(f"{database.name} is on a server: {instead} {database.artifacts_folder}")
    return database


class _Packer:
    def __init__(self, archive: ArchiveWriter, artifacts: ArtifactStore) -> None:
        self._archive, self._artifacts = archive, artifacts
        self.lost: list[int] = []
        self.left_out: list[str] = []

    def add(self, records: Iterable[ArtifactRecord]) -> None:
        for record in records:
            try:
                self._archive.add(f"{ARTIFACTS}/{record.path}", self._artifacts.read(record))
            except ArtifactDamaged as error:
                self.lost.append(record.id)
                if record.kind != CHECKPOINT:  # which its run has replaced meanwhile: it begins further back
                    self.left_out.append(str(error))


def _artifacts(connection: sa.Connection) -> tuple[list[ArtifactRecord], list[int]]:
    """Those to keep, and the ids of those that nobody needs any more: checkpoints of runs that have ended."""
    is_over = sa.and_(Artifact.kind == CHECKPOINT, Run.status.in_(FINISHED))
    rows = connection.execute(sa.select(*COLUMNS, is_over.label("is_over")).join(Run).order_by(Artifact.id.desc()))
    found = [(row.is_over, ArtifactRecord(*row[: len(COLUMNS)])) for row in rows]
    return [record for over, record in found if not over], [record.id for over, record in found if over]


def _forget(path: Path, artifact_ids: list[int]) -> int:
    """No row of the copy points to a file that is not in the archive. Answers how many runs the copy has."""
    copy = SQLite(sa.URL.create("sqlite", database=str(path)), timeout_s=10.0)
    with closing(copy), copy.write() as connection:
        for artifact_id in artifact_ids:
            connection.execute(sa.delete(Artifact).where(Artifact.id == artifact_id))
        return int(connection.scalar(sa.select(sa.func.count()).select_from(Run)) or 0)


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """Room for a database beside ``path``, for a while."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.db")
    try:
        yield scratch
    except driver().Error as error:
        raise StorageError(f"cannot write {scratch} ({error}); free as much space as the database takes") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            scratch.with_name(f"{scratch.name}{suffix}").unlink(missing_ok=True)
