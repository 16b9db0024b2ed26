"""One file that holds many: a zip without compression, and a manifest that vouches for each member.

It is written under another name, flushed and renamed, so that an archive that is there is whole. Any program that
opens zip files reads it; who packs it anew, compressed, has made another file of it.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from storage.errors import ArchiveInvalid, StorageError

MANIFEST = "manifest.json"
FORMAT = 1  # of the manifest; a reader refuses what is newer
CHUNK = 2**20
DAMAGE = (KeyError, EOFError, RuntimeError, zipfile.BadZipFile)  # what reading a zip that was tampered with raises

BACKUP, BUNDLE = "Fedscape backup", "Fedscape bundle"  # the kinds
TAKEN_BY = {BACKUP: "`python -m engine restore`", BUNDLE: "`python -m engine import`"}

Told = Callable[[int], None]  # how many more bytes are done


class Member(NamedTuple):
    sha256: str
    size_bytes: int


class ArchiveWriter:
    """``facts`` go into the manifest, for whoever reads it."""

    def __init__(self, zipped: zipfile.ZipFile, tell: Told) -> None:
        self._zip, self._tell = zipped, tell
        self._members: dict[str, Member] = {}
        self.facts: dict[str, Any] = {}

    def add(self, name: str, data: bytes) -> None:
        with self._zip.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
            member.write(data)
        self._members[name] = Member(hashlib.sha256(data).hexdigest(), len(data))
        self._tell(len(data))

    def add_file(self, name: str, path: Path) -> None:
        """Of any size."""
        with open(path, "rb") as source, self._zip.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
            self._members[name] = _copy(source, member, self._tell)

    def finish(self, kind: str) -> None:
        members = {name: member._asdict() for name, member in self._members.items()}
        manifest = {"kind": kind, "format": FORMAT, **self.facts, "members": members}
        self._zip.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest, indent=1))


@contextmanager
def new_archive(path: Path, kind: str, tell: Told = lambda size: None) -> Iterator[ArchiveWriter]:
    """An archive that appears when all of it is written, and not at all when an error leaves it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(unfinished, "wb") as file:
            with zipfile.ZipFile(file, "w") as zipped:
                writer = ArchiveWriter(zipped, tell)
                yield writer
                writer.finish(kind)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync_folder(path.absolute().parent)
    except OSError as error:
        raise StorageError(
            f"cannot write {path} ({error.strerror or error}); free some space, or choose another place"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


class Archive:
    """One that somebody brings: a member is handed out only if it is what the manifest says."""

    def __init__(self, path: Path, kind: str) -> None:
        """Raises ArchiveInvalid where it is no archive of this kind."""
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise ArchiveInvalid(f"{path}: cannot be read ({error.strerror or error})") from error
        except zipfile.BadZipFile as error:
            raise ArchiveInvalid(f"{path}: is no {kind}, or only the beginning of one ({error})") from error
        try:
            self.facts = self._manifest(kind)
            self.members = {name: Member(**said) for name, said in self.facts.pop("members").items()}
        except (*DAMAGE, TypeError, ValueError, AttributeError) as error:
            self.close()
            raise ArchiveInvalid(f"{path}: is no {kind}: its {MANIFEST} is missing or damaged ({error})") from error
        except ArchiveInvalid:
            self.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """Raises ArchiveInvalid."""
        with self._opened(name) as member:
            data = member.read()
        self._compare(name, Member(hashlib.sha256(data).hexdigest(), len(data)))
        return data

    def extract(self, name: str, target: Path, tell: Told = lambda size: None) -> None:
        """Of any size, safely on disk. Raises ArchiveInvalid, and what it has written then is worth nothing."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._opened(name) as member, open(target, "wb") as file:
            found = _copy(member, file, tell)
            file.flush()
            os.fsync(file.fileno())
        self._compare(name, found)

    def _manifest(self, kind: str) -> dict[str, Any]:
        with self._stored(MANIFEST) as member:
            manifest: dict[str, Any] = json.loads(member.read())
        if manifest["kind"] != kind:
            takes = TAKEN_BY.get(manifest["kind"], "nothing here")
            raise ArchiveInvalid(f"{self.path}: is a {manifest['kind']}, which {takes} takes; a {kind} is needed")
        if manifest["format"] > FORMAT:
            raise ArchiveInvalid(f"{self.path}: was written by a newer version; update the program")
        return manifest

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        if name not in self.members:
            raise ArchiveInvalid(f"{self.path}: {name} is missing; get the file again")
        try:
            with self._stored(name) as member:
                yield member
        except DAMAGE as error:
            raise ArchiveInvalid(f"{self.path}: {name} is damaged ({error}); get the file again") from error

    def _stored(self, name: str) -> IO[bytes]:
        """Nothing is decompressed: what a small file holds is small."""
        if self._zip.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise ArchiveInvalid(f"{self.path}: was packed anew, compressed; give the file as it was written")
        return self._zip.open(name)

    def _compare(self, name: str, found: Member) -> None:
        if found != self.members[name]:
            raise ArchiveInvalid(f"{self.path}: {name} is not what was written (sha256 differs); get the file again")


def sync_folder(folder: Path) -> None:
    """Names in it survive a power cut from here on."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy(source: IO[bytes], target: IO[bytes], tell: Told) -> Member:
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        target.write(chunk)
        digest.update(chunk)
        size += len(chunk)
        tell(len(chunk))
    return Member(digest.hexdigest(), size)
