"""Files of runs (checkpoints, models, landscapes), and the table rows that register them.

A file is written under a temporary name, flushed, renamed and only then registered, so no row ever points to an
incomplete file. ``sweep`` removes the files that no row points to, unless they may be those of another database.
"""

import errno
import hashlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import sqlalchemy as sa

from storage.artifact_folder import ArtifactFolder, OutsideFolder
from storage.database import Database, hold_lock
from storage.errors import ArtifactDamaged, ArtifactNotWritten
from storage.model_retention import drop_models, idle_models, oldest_over_limit
from storage.models import Artifact, Run, now
from storage.ownership import update_owned
from storage.records import FINISHED, ArtifactRecord, NewArtifact

LOCK = 0x6665_6473_7377_6570  # the key of an advisory lock of PostgreSQL
SWEPT_AT_ONCE = 100  # files deleted in one transaction, for which other writers wait
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
COLUMNS = tuple(Artifact.__table__.columns)

log = logging.getLogger(__name__)


class ArtifactStore:
    def __init__(self, database: Database, folder: Path) -> None:
        self._database, self.folder = database, folder
        self.files = ArtifactFolder(folder)

    def write_file(self, run_id: int, kind: str, round: int, data: bytes) -> NewArtifact:
        """Writes the bytes durably. The file counts once it is registered, here or by ``metrics.append``."""
        try:
            path = self.files.new_name(run_id, kind, round)
            self.files.write(path, data)
        except OSError as error:
            raise ArtifactNotWritten(
                f"cannot write the {kind} of run {run_id} into {self.folder} ({error.strerror}); {_advice(error)}"
            ) from error
        return NewArtifact(kind, round, path, hashlib.sha256(data).hexdigest(), len(data))

    def register(self, run_id: int, epoch: int | None, new: NewArtifact) -> ArtifactRecord:
        """Adds the row of a file. Raises Fenced if ``epoch`` is outdated; None adds to a finished run."""
        with self._database.write() as connection:
            if epoch is not None:
                update_owned(connection, run_id, epoch, heartbeat_at=now())
            return insert_artifact(connection, run_id, new)

    def latest(self, run_id: int, kind: str) -> ArtifactRecord | None:
        return next(iter(self.list(run_id, kind)), None)

    def list(self, run_id: int, kind: str | None = None) -> list[ArtifactRecord]:
        """The artifacts of a run, newest round first."""
        query = sa.select(*COLUMNS).where(Artifact.run_id == run_id)
        if kind is not None:
            query = query.where(Artifact.kind == kind)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(Artifact.round.desc(), Artifact.id.desc()))
            return [ArtifactRecord(**row._mapping) for row in rows]

    def get(self, artifact_id: int) -> ArtifactRecord | None:
        with self._database.read() as connection:
            row = connection.execute(sa.select(*COLUMNS).where(Artifact.id == artifact_id)).one_or_none()
        return None if row is None else ArtifactRecord(**row._mapping)

    def is_registered(self, file: NewArtifact) -> bool:
        """Whether the file has a row; needed where the outcome of a commit is unknown."""
        with self._database.read() as connection:
            return connection.scalar(sa.select(Artifact.id).where(Artifact.path == file.path)) is not None

    def remove_unregistered(self, file: NewArtifact) -> None:
        """Deletes a file after its registration failed, unless it was registered all the same."""
        if not self.is_registered(file):
            self.remove_files([file.path])

    def read(self, record: ArtifactRecord) -> bytes:
        """The content of an artifact, verified by its SHA-256. Raises ArtifactDamaged."""
        what = f"the {record.kind} of run {record.run_id}, round {record.round},"
        try:
            data = self.files.read(record.path)
        except OutsideFolder as error:
            raise ArtifactDamaged(f"{what} was refused: {error.strerror} in {self.folder}; rerun the run") from error
        except OSError as error:
            raise ArtifactDamaged(
                f"{what} cannot be read from {self.folder / record.path} ({error.strerror}); put the file back, or "
                "rerun the run"
            ) from error
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise ArtifactDamaged(
                f"{what} in {self.folder / record.path} was changed (its SHA-256 differs); rerun the run"
            )
        return data

    def keep_last(self, run_id: int, kind: str, n: int = 2, epoch: int | None = None) -> None:
        """Deletes all but the ``n`` newest artifacts of a kind.

        Raises Fenced if ``epoch`` is outdated; None is for a finished run.
        """
        old = [record.id for record in self.list(run_id, kind)[n:]]
        self.delete(old, None if epoch is None else (run_id, epoch))

    def delete(self, ids: Iterable[int], claim: tuple[int, int] | None = None) -> None:
        """Deletes artifacts. Raises Fenced if ``claim``, the (run, epoch) that owns them, is outdated."""
        deleted = sa.delete(Artifact).where(Artifact.id.in_(tuple(ids))).returning(Artifact.path)
        with self._database.write() as connection:
            if claim is not None:
                update_owned(connection, *claim, heartbeat_at=now())
            paths = connection.scalars(deleted).all()
        self.remove_files(paths)

    def models_bytes(self, run_ids: Sequence[int]) -> int:
        """The bytes that ``drop_models`` would free."""
        sizes = sa.select(sa.func.sum(Artifact.size_bytes)).where(idle_models(run_ids))
        with self._database.read() as connection:
            return int(connection.scalar(sizes) or 0)

    def drop_models(self, run_ids: Sequence[int]) -> int:
        """Deletes the models of runs that are not running; rounds and analyses remain. Returns the bytes freed."""
        with self._database.write() as connection:
            rows = drop_models(connection, run_ids, "on request")
        self.remove_files(row.path for row in rows)
        return sum(row.size_bytes for row in rows)

    def trim_models(self, max_bytes: int, reason: str) -> int:
        """Deletes the models of the oldest finished runs until all others take at most ``max_bytes``.

        ``reason`` goes into the runs' logs. Returns the bytes freed.
        """
        with self._database.write() as connection:
            rows = drop_models(connection, oldest_over_limit(connection, max_bytes), reason)
        self.remove_files(row.path for row in rows)
        return sum(row.size_bytes for row in rows)

    def drop_of_finished(self, kind: str) -> int:
        """Deletes the artifacts of a kind of all finished runs. Returns how many."""
        finished = sa.select(Run.id).where(Run.status.in_(FINISHED))
        deleted = sa.delete(Artifact).where(Artifact.kind == kind, Artifact.run_id.in_(finished))
        with self._database.write() as connection:
            paths = connection.scalars(deleted.returning(Artifact.path)).all()
        self.remove_files(paths)
        return len(paths)

    def mark_folder(self) -> bool:
        """Leaves a mark, which keeps other databases from sweeping the folder. Returns whether it is new."""
        identity = self._database.identity()
        try:
            return identity is not None and self.files.mark(identity, self._database.name)
        except OSError as error:
            raise ArtifactNotWritten(f"cannot write into {self.folder} ({error.strerror}); {_advice(error)}") from error

    def sweep(self) -> int:
        """Deletes files without a row and returns how many. Call it before workers start.

        Deletes nothing if other databases use the folder, or may have used it before they left marks.
        """
        try:
            is_first = self.mark_folder()
        except ArtifactNotWritten as error:  # nor could a file be deleted
            log.warning("%s", error)
            return 0
        found = list(self.files.names())
        if is_first or self._is_shared():  # after listing: a database leaves its mark before its files
            return 0
        with self._database.read() as connection:  # after listing, to keep files registered meanwhile
            known = set(connection.scalars(sa.select(Artifact.path)))
        orphans = [path for path in found if path not in known]
        return sum(self._sweep(orphans[at : at + SWEPT_AT_ONCE]) for at in range(0, len(orphans), SWEPT_AT_ONCE))

    def _is_shared(self) -> bool:
        others = self.files.databases() - {self._database.identity()}
        if others:
            log.warning(
                "files that no run needs stay in %s, since other databases use it too; set another ARTIFACTS_DIR for "
                "each database, or delete %s there if that database no longer uses the folder",
                self.folder,
                ", ".join(f"database-{identity}.txt" for identity in sorted(others)),
            )
        return bool(others)

    def _sweep(self, paths: Sequence[str]) -> int:
        """Deletes the files that are still without a row, while no import can register one."""
        with self._database.write() as connection:
            hold_lock(connection, LOCK)
            known = set(connection.scalars(sa.select(Artifact.path).where(Artifact.path.in_(paths))))
            orphans = [path for path in paths if path not in known]
            self.remove_files(orphans)
        return len(orphans)

    def refuse_swept(self, connection: sa.Connection, file: NewArtifact) -> None:
        """Raises ArtifactNotWritten if ``sweep`` has deleted the file; afterwards it cannot until the commit."""
        hold_lock(connection, LOCK)
        if not (self.folder / file.path).exists():
            raise ArtifactNotWritten(f"{self.folder / file.path} was deleted, since the engine just started; try again")

    def remove_files(self, paths: Iterable[str]) -> None:
        """Deletes files whose rows are gone. A kill in between leaves a file without a row, never a row without a file.

        A file that cannot be deleted now is logged and left for ``sweep``.
        """
        for path in paths:
            try:
                self.files.remove(path)
            except OSError as error:
                log.warning("cannot remove %s (%s); check the folder's owner", self.folder / path, error.strerror)


def has_artifact(connection: sa.Connection, run_id: int, kind: str) -> bool:
    stored = sa.select(Artifact.id).where(Artifact.run_id == run_id, Artifact.kind == kind)
    return connection.scalar(stored.limit(1)) is not None


def insert_artifact(connection: sa.Connection, run_id: int, new: NewArtifact) -> ArtifactRecord:
    """Registers a file that is on disk, inside the caller's transaction."""
    values = {"run_id": run_id, "created_at": now()} | new._asdict()
    row = connection.execute(sa.insert(Artifact).values(values).returning(*COLUMNS)).one()
    return ArtifactRecord(**row._mapping)


def _advice(error: OSError) -> str:
    if error.errno in DISK_FULL_ERRNOS:
        return "free some space on this disk, or delete models in the library"
    return "check the owner and the permissions of the folder"
