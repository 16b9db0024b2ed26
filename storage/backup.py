"""Backup of a whole database into one file: its rows and the artifacts they point to, while others keep writing.

Rows and list of artifacts are from one snapshot. Checkpoints are packed immediately, since running runs replace them
every few seconds; artifacts of finished runs do not change.
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

DATABASE, ARTIFACTS = "fedscape.db", "artifacts"  # names in the archive
CHECKPOINTS = ("checkpoint", "checkpoint-rows")

Progress = Callable[[int, int], None]  # bytes done, bytes in total


@dataclass(frozen=True)
class Backup:
    """A written backup; ``left_out`` has the reason for each artifact that could not be read."""

    path: Path
    runs: int
    size_bytes: int
    left_out: tuple[str, ...]


def back_up(database: Database, artifacts: ArtifactStore, path: Path, version: str, progress: Progress) -> Backup:
    """Writes a backup. Raises StorageError and leaves no file if it cannot be completed."""
    source = file_of(database, "back it up with pg_dump while no run is active, and copy the artifacts folder")
    schema.check(source)
    if path.exists() and path.resolve() in {file.resolve() for file in source.files}:
        raise StorageError(f"{path} is the database itself; give the backup another name")
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    with new_archive(path, BACKUP, count) as archive, _temporary_database(path) as copy:
        with source.read() as connection:
            kept, obsolete = _artifacts(connection)
            total = source.size_bytes() + sum(record.size_bytes for record in kept)
            packer = _Packer(archive, artifacts)
            packer.add(record for record in kept if record.kind in CHECKPOINTS)
            source.copy(connection, copy, lambda: count(0))
        packer.add(record for record in kept if record.kind not in CHECKPOINTS)
        runs = _delete_rows(copy, obsolete + packer.unreadable)
        total = done + copy.stat().st_size  # exact, now that the size of the copy is known
        archive.add_file(DATABASE, copy)
        archive.facts = {
            "version": version,
            "schema": schema.revisions()[-1],
            "written_at": now().isoformat(),
            "runs": runs,
        }
    return Backup(path, runs, path.stat().st_size, tuple(packer.left_out))


def file_of(database: Database, instead: str) -> SQLite:
    """The database as a file. Raises StorageError, with the advice ``instead``, if it is on a server."""
    if not isinstance(database, SQLite):
        raise StorageError(f"{database.name} is on a server: {instead} {database.artifacts_folder}")
    return database


class _Packer:
    def __init__(self, archive: ArchiveWriter, artifacts: ArtifactStore) -> None:
        self._archive, self._artifacts = archive, artifacts
        self.unreadable: list[int] = []
        self.left_out: list[str] = []

    def add(self, records: Iterable[ArtifactRecord]) -> None:
        for record in records:
            try:
                self._archive.add(f"{ARTIFACTS}/{record.path}", self._artifacts.read(record))
            except ArtifactDamaged as error:
                self.unreadable.append(record.id)
                if record.kind not in CHECKPOINTS:  # replaced by its run meanwhile, which resumes from an earlier one
                    self.left_out.append(str(error))


def _artifacts(connection: sa.Connection) -> tuple[list[ArtifactRecord], list[int]]:
    """The artifacts to pack, and the ids of those to drop: checkpoints of finished runs."""
    is_obsolete = sa.and_(Artifact.kind.in_(CHECKPOINTS), Run.status.in_(FINISHED))
    rows = connection.execute(
        sa.select(*COLUMNS, is_obsolete.label("is_obsolete")).join(Run).order_by(Artifact.id.desc())
    )
    found = [(row.is_obsolete, ArtifactRecord(*row[: len(COLUMNS)])) for row in rows]
    return [record for obsolete, record in found if not obsolete], [record.id for obsolete, record in found if obsolete]


def _delete_rows(path: Path, artifact_ids: list[int]) -> int:
    """Deletes rows of artifacts that are not in the archive from the copy. Returns its number of runs."""
    copy = SQLite(sa.URL.create("sqlite", database=str(path)), timeout_s=10.0)
    with closing(copy), copy.write() as connection:
        for artifact_id in artifact_ids:
            connection.execute(sa.delete(Artifact).where(Artifact.id == artifact_id))
        return int(connection.scalar(sa.select(sa.func.count()).select_from(Run)) or 0)


@contextmanager
def _temporary_database(path: Path) -> Iterator[Path]:
    """The path of a temporary database next to ``path``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.db")
    try:
        yield temporary
    except driver().Error as error:
        raise StorageError(f"cannot write {temporary} ({error}); free at least the size of the database") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            temporary.with_name(f"{temporary.name}{suffix}").unlink(missing_ok=True)
