"""Archives: uncompressed zip files with a manifest that has the SHA-256 of each member.

An archive is written under a temporary name, flushed and renamed, so a file under the final name is complete. Any zip
program can open it. When reading a file of unknown origin, only the members listed in the manifest are accepted, stored
uncompressed, under plain names, and no larger in sum than the file: no zip bombs, and no paths that leave the target.
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
FORMAT = 1  # version of the manifest; newer ones are refused
CHUNK = 2**20
MAX_MANIFEST_BYTES = 2**27
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")  # no .., no root, no backslash
ENCRYPTED = 0x1
# Errors raised by a manipulated zip: a damaged length can request more memory than there is. Unknown versions raise
# NotImplementedError, a subclass of RuntimeError.
DAMAGE_ERRORS = (KeyError, EOFError, RuntimeError, ValueError, OverflowError, MemoryError, zipfile.BadZipFile)

BACKUP, BUNDLE = "Fedscape backup", "Fedscape bundle"  # the kinds
COMMANDS = {BACKUP: "`python -m engine restore`", BUNDLE: "`python -m engine import`"}

OnBytes = Callable[[int], None]  # called with the number of bytes just processed


class Member(NamedTuple):
    sha256: str
    size_bytes: int


class Entry(BaseModel):
    model_config = ConfigDict(strict=True)

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size_bytes: NonNegativeInt


class Manifest(BaseModel):
    """The manifest. Fields other than these are the archive's ``facts``."""

    model_config = ConfigDict(strict=True, extra="allow")

    kind: Annotated[str, Field(max_length=100)]
    format: PositiveInt
    members: dict[str, Entry]


class ArchiveWriter:
    """Adds members to an archive; ``facts`` are extra fields for the manifest."""

    def __init__(self, zipped: zipfile.ZipFile, on_bytes: OnBytes) -> None:
        self._zip, self._on_bytes = zipped, on_bytes
        self._members: dict[str, Member] = {}
        self.facts: dict[str, Any] = {}

    def add(self, name: str, data: bytes) -> None:
        with self._zip.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
            member.write(data)
        self._members[name] = Member(hashlib.sha256(data).hexdigest(), len(data))
        self._on_bytes(len(data))

    def add_file(self, name: str, path: Path) -> None:
        """Adds a file of any size."""
        with open(path, "rb") as source, self._zip.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
            self._members[name] = _copy(source, member, self._on_bytes)

    def finish(self, kind: str) -> None:
        members = {name: member._asdict() for name, member in self._members.items()}
        manifest = {"kind": kind, "format": FORMAT, **self.facts, "members": members}
        self._zip.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest, indent=1))


@contextmanager
def new_archive(path: Path, kind: str, on_bytes: OnBytes = lambda size: None) -> Iterator[ArchiveWriter]:
    """Writes an archive, which appears only when complete; an error leaves no file. Raises StorageError.

    An existing archive of this kind is replaced; any other file is refused.
    """
    _refuse_to_replace_others(path, kind)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(unfinished, "wb") as file:
            with zipfile.ZipFile(file, "w") as zipped:
                writer = ArchiveWriter(zipped, on_bytes)
                yield writer
                writer.finish(kind)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync_folder(path.absolute().parent)
    except OSError as error:
        raise StorageError(
            f"cannot write {path} ({error.strerror or error}); free some space, or choose another folder"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _refuse_to_replace_others(path: Path, kind: str) -> None:
    if not os.path.lexists(path):
        return
    try:
        Archive(path, kind).close()
    except ArchiveInvalid as error:
        raise StorageError(f"{path} exists and is not a {kind}; choose another path") from error


class Archive:
    """Reads an archive of unknown origin; each member must match the manifest."""

    def __init__(self, path: Path, kind: str) -> None:
        """Raises ArchiveInvalid if the file is not an archive of this kind."""
        self.path = path
        self._zip = _open_zip(path, kind)
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
        """The bytes of a member. Raises ArchiveInvalid."""
        with self._open_member(name) as member:
            data = member.read()
        self._verify(name, Member(hashlib.sha256(data).hexdigest(), len(data)))
        return data

    def extract(self, name: str, target: Path, on_bytes: OnBytes = lambda size: None) -> None:
        """Writes a member of any size to ``target`` and flushes it. After ArchiveInvalid, discard ``target``."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._open_member(name) as member, open(target, "wb") as file:
            found = copy_durably(member, file, on_bytes)
        self._verify(name, found)

    def _manifest(self, kind: str) -> tuple[dict[str, Any], dict[str, Member]]:
        """The facts and the members. Errors about another kind or a newer version come first."""
        try:
            entry = self._zip.getinfo(MANIFEST)
            if entry.file_size > MAX_MANIFEST_BYTES:
                limit = f"{MAX_MANIFEST_BYTES:,}"
                raise self._invalid(f"its {MANIFEST} has {entry.file_size:,} bytes; the limit is {limit}")
            with self._open_uncompressed(MANIFEST) as member:
                manifest = Manifest.model_validate_json(member.read())
        except ValidationError as error:
            raise self._invalid(f"is not a {kind}: its {MANIFEST} is damaged: {first_error(error)}") from error
        except DAMAGE_ERRORS as error:
            raise self._invalid(f"is not a {kind}: its {MANIFEST} is missing or damaged ({error})") from error
        if manifest.kind != kind:
            if manifest.kind not in COMMANDS:
                raise self._invalid(f"is a {manifest.kind!r}; give a {kind}")
            raise self._invalid(f"is a {manifest.kind}: use {COMMANDS[manifest.kind]} for it; give a {kind} here")
        if manifest.format > FORMAT:
            raise self._invalid("was written by a newer version; update the program")
        members = {name: Member(entry.sha256, entry.size_bytes) for name, entry in manifest.members.items()}
        return manifest.model_extra or {}, members

    def _check_entries(self) -> None:
        """Checks that the zip lists the members of the manifest, and plain files only."""
        entries = self._zip.infolist()
        if sum(entry.file_size for entry in entries) > self.path.stat().st_size:
            raise self._invalid("the sizes of its members exceed the size of the file; get the file again")
        seen: set[str] = set()
        for entry in entries:
            name = entry.orig_filename
            if reason := _entry_problem(entry):
                raise self._invalid(f"{name[:100]!r} {reason}")
            if name.casefold() in seen:
                raise self._invalid(f"{name!r} occurs more than once, ignoring case; get the file again")
            seen.add(name.casefold())
            if name != MANIFEST and name not in self.members:
                raise self._invalid(f"{name!r} is not in its {MANIFEST}; get the file again")
            if name != MANIFEST and entry.file_size != self.members[name].size_bytes:
                raise self._invalid(f"{name} was changed (its size differs); get the file again")
        if missing := self.members.keys() - set(self._zip.NameToInfo):
            raise self._invalid(f"{min(missing)[:100]!r} is missing; get the file again")

    def _invalid(self, reason: str) -> ArchiveInvalid:
        return ArchiveInvalid(f"{self.path}: {reason}")

    @contextmanager
    def _open_member(self, name: str) -> Iterator[IO[bytes]]:
        if name not in self.members:
            raise self._invalid(f"{name} is missing; get the file again")
        try:
            with self._open_uncompressed(name) as member:
                yield member
        except DAMAGE_ERRORS as error:
            raise ArchiveInvalid(f"{self.path}: {name} is damaged ({error}); get the file again") from error

    def _open_uncompressed(self, name: str) -> IO[bytes]:
        """Opens a member. Never decompresses, so that a small file cannot expand."""
        if self._zip.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise self._invalid("was repacked with compression; give the original file")
        return self._zip.open(name)

    def _verify(self, name: str, found: Member) -> None:
        if found != self.members[name]:
            raise self._invalid(f"{name} was changed (its SHA-256 differs); get the file again")


def copy_durably(source: IO[bytes], target: IO[bytes], on_bytes: OnBytes = lambda size: None) -> Member:
    found = _copy(source, target, on_bytes)
    target.flush()
    os.fsync(target.fileno())
    return found


def first_error(error: ValidationError) -> str:
    """The first validation error in one line: where, and what is expected."""
    found = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, found["loc"]))[:100]
    return f"{where}: {found['msg']}" if where else found["msg"]


def sync_folder(folder: Path) -> None:
    """Flushes the folder, so that the names in it survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy(source: IO[bytes], target: IO[bytes], on_bytes: OnBytes) -> Member:
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        target.write(chunk)
        digest.update(chunk)
        size += len(chunk)
        on_bytes(len(chunk))
    return Member(digest.hexdigest(), size)


def _open_zip(path: Path, kind: str) -> zipfile.ZipFile:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ArchiveInvalid(f"{path}: is not a regular file; give a {kind}")
        return zipfile.ZipFile(path)
    except OSError as error:
        raise ArchiveInvalid(f"{path}: cannot be read ({error.strerror or error})") from error
    except DAMAGE_ERRORS as error:
        raise ArchiveInvalid(f"{path}: is not a {kind}, or incomplete ({error})") from error


def _entry_problem(entry: zipfile.ZipInfo) -> str | None:
    """Why this cannot be a member that we wrote, or None."""
    mode = entry.external_attr >> 16
    if not NAME.fullmatch(entry.orig_filename):
        return "is not a valid member name"
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        return "is not a regular file"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted; give the original file"
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        return "was repacked with compression; give the original file"
    return None
