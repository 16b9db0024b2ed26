"""One file that holds many: a zip without compression, and a manifest that vouches for each member.

It is written under another name, flushed and renamed, so that an archive that is there is whole. Any program that
opens zip files reads it. An archive that somebody brings holds exactly the members of its manifest, uncompressed and
under plain names, and no more bytes than the file has: so nothing in it can unpack to more, or to somewhere else.
"""

import hashlib
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from storage.errors import ArchiveInvalid, StorageError

MANIFEST = "manifest.json"
FORMAT = 1  # of the manifest; a reader refuses what is newer
CHUNK = 2**20
MAX_MANIFEST_BYTES = 2**27
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")  # no .., no root, no backslash
ENCRYPTED = 0x1
# What reading a zip that was tampered with raises; a damaged length can ask for more memory than there is.
DAMAGE = (KeyError, EOFError, RuntimeError, ValueError, OverflowError, MemoryError, zipfile.BadZipFile)

BACKUP, BUNDLE = "Fedscape backup", "Fedscape bundle"  # the kinds
TAKEN_BY = {BACKUP: "`python -m engine restore`", BUNDLE: "`python -m engine import`"}

Told = Callable[[int], None]  # how many more bytes are done


class Member(NamedTuple):
    sha256: str
    size_bytes: int


class Entry(BaseModel):
    model_config = ConfigDict(strict=True)

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size_bytes: NonNegativeInt


class Manifest(BaseModel):
    """``facts`` of a kind of archive are the other fields."""

    model_config = ConfigDict(strict=True, extra="allow")

    kind: Annotated[str, Field(max_length=100)]
    format: PositiveInt
    members: dict[str, Entry]


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
        self._zip = _opened_zip(path, kind)
        try:
            self.facts, self.members = self._manifest(kind)
            self._check_entries()
        except BaseException:
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
            found = copy_durably(member, file, tell)
        self._compare(name, found)

    def _manifest(self, kind: str) -> tuple[dict[str, Any], dict[str, Member]]:
        """The facts, and the members. What can be told of an archive of another kind or version comes first."""
        try:
            entry = self._zip.getinfo(MANIFEST)
            if entry.file_size > MAX_MANIFEST_BYTES:
                most = f"{MAX_MANIFEST_BYTES:,}"
                raise self._invalid(f"its {MANIFEST} has {entry.file_size:,} bytes; {most} are the most")
            with self._stored(MANIFEST) as member:
                manifest = Manifest.model_validate_json(member.read())
        except ValidationError as error:
            raise self._invalid(f"is no {kind}: its {MANIFEST} is damaged: {first_of(error)}") from error
        except DAMAGE as error:
            raise self._invalid(f"is no {kind}: its {MANIFEST} is missing or damaged ({error})") from error
        if manifest.kind != kind:
            if manifest.kind not in TAKEN_BY:
                raise self._invalid(f"is of the kind {manifest.kind!r}; a {kind} is needed")
            raise self._invalid(f"is a {manifest.kind}, which {TAKEN_BY[manifest.kind]} takes; a {kind} is needed")
        if manifest.format > FORMAT:
            raise self._invalid("was written by a newer version; update the program")
        members = {name: Member(entry.sha256, entry.size_bytes) for name, entry in manifest.members.items()}
        return manifest.model_extra or {}, members

    def _check_entries(self) -> None:
        """What the zip lists is what the manifest lists, and plain files only."""
        entries = self._zip.infolist()
        if sum(entry.file_size for entry in entries) > self.path.stat().st_size:
            raise self._invalid("its members claim to be larger than the whole file; get the file again")
        seen: set[str] = set()
        for entry in entries:
            name = entry.orig_filename
            if reason := _wrong_with(entry):
                raise self._invalid(f"{name[:100]!r} {reason}")
            if name.casefold() in seen:
                raise self._invalid(f"{name!r} is in it twice, but for upper and lower case; get the file again")
            seen.add(name.casefold())
            if name != MANIFEST and name not in self.members:
                raise self._invalid(f"{name!r} is not in its {MANIFEST}; get the file again")
            if name != MANIFEST and entry.file_size != self.members[name].size_bytes:
                raise self._invalid(f"{name} is not what was written (its size differs); get the file again")
        if missing := self.members.keys() - set(self._zip.NameToInfo):
            raise self._invalid(f"{min(missing)[:100]!r} is missing; get the file again")

    def _invalid(self, reason: str) -> ArchiveInvalid:
        return ArchiveInvalid(f"{self.path}: {reason}")

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        if name not in self.members:
            raise self._invalid(f"{name} is missing; get the file again")
        try:
            with self._stored(name) as member:
                yield member
        except DAMAGE as error:
            raise ArchiveInvalid(f"{self.path}: {name} is damaged ({error}); get the file again") from error

    def _stored(self, name: str) -> IO[bytes]:
        """Nothing is decompressed: what a small file holds is small."""
        if self._zip.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise self._invalid("was packed anew, compressed; give the file as it was written")
        return self._zip.open(name)

    def _compare(self, name: str, found: Member) -> None:
        if found != self.members[name]:
            raise self._invalid(f"{name} is not what was written (sha256 differs); get the file again")


def copy_durably(source: IO[bytes], target: IO[bytes], tell: Told = lambda size: None) -> Member:
    found = _copy(source, target, tell)
    target.flush()
    os.fsync(target.fileno())
    return found


def first_of(error: ValidationError) -> str:
    """The first mistake, in a line: where, and what is needed."""
    found = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, found["loc"]))[:100]
    return f"{where}: {found['msg']}" if where else found["msg"]


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


def _opened_zip(path: Path, kind: str) -> zipfile.ZipFile:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ArchiveInvalid(f"{path}: is not a regular file; give a {kind}")
        return zipfile.ZipFile(path)
    except OSError as error:
        raise ArchiveInvalid(f"{path}: cannot be read ({error.strerror or error})") from error
    except (*DAMAGE, NotImplementedError) as error:
        raise ArchiveInvalid(f"{path}: is no {kind}, or only the beginning of one ({error})") from error


def _wrong_with(entry: zipfile.ZipInfo) -> str | None:
    """Why this is none of the members that we write; None for those."""
    mode = entry.external_attr >> 16
    if not NAME.fullmatch(entry.orig_filename):
        return "is no name that a member has"
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        return "is not a regular file"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted; give the file as it was written"
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        return "was packed anew, compressed; give the file as it was written"
    return None
