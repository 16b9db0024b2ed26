"""Access to the artifacts folder that never reads, writes or deletes anything outside it.

Paths come from rows, and a restored database may come from anyone. ``ArtifactFolder`` accepts only names of the form it
generates itself, follows no symbolic links below the folder, and reads regular files only.
"""

import errno
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.archive import copy_durably, sync_folder

UNFINISHED = ".tmp"
KIND = r"[A-Za-z][A-Za-z0-9_-]*"
NAME = re.compile(rf"[0-9]{{1,19}}/{KIND}-[0-9]{{6,10}}-[0-9a-f]{{12}}\.(bin|tmp)")
MARK = re.compile(r"database-([0-9-]+)\.txt")
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # do not block on a FIFO without a writer
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideFolder(OSError):
    """A name that is not an artifact's, or a file that is not a regular one."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(errno.EPERM, f"{name[:100]!r} {reason}")


class ArtifactFolder:
    """Files named ``<run>/<kind>-<round>-<random>.bin``. Every method raises OSError, of which OutsideFolder is one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def new_name(self, run_id: int, kind: str, round: int) -> str:
        return _check_name(f"{run_id}/{kind}-{round:06d}-{uuid.uuid4().hex[:12]}.bin")

    def read(self, name: str) -> bytes:
        with self._run_folder(name) as (folder, file):
            handle = os.open(file, READ, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise OutsideFolder(name, "is not a regular file")
                with open(handle, "rb", closefd=False) as opened:
                    return opened.read()
            finally:
                os.close(handle)

    def write(self, name: str, data: bytes) -> None:
        """Writes under a temporary name, flushes and renames."""

        def write(folder: int, file: str) -> None:
            unfinished = f"{file.rpartition('.')[0]}{UNFINISHED}"
            try:
                with open(os.open(unfinished, WRITE, 0o666, dir_fd=folder), "wb") as opened:
                    opened.write(data)
                    opened.flush()
                    os.fsync(opened.fileno())
                os.replace(unfinished, file, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise

        self._create(name, write)
        sync_folder(self.path)

    def link(self, source: Path, name: str) -> None:
        """Gives a file on the same disk a second name (a hard link); copies it from another disk."""

        def link(folder: int, file: str) -> None:
            try:
                os.link(source, file, dst_dir_fd=folder, follow_symlinks=False)
            except OSError:
                with open(source, "rb") as old, open(os.open(file, WRITE, 0o666, dir_fd=folder), "wb") as new:
                    copy_durably(old, new)

        self._create(name, link)

    def remove(self, name: str) -> None:
        """Deletes a file if it exists. Of a symbolic link, deletes the link and not its target."""
        with suppress(FileNotFoundError), self._run_folder(name) as (folder, file):
            os.unlink(file, dir_fd=folder)
        with suppress(OSError):  # not empty yet
            os.rmdir(self.path / _check_name(name).partition("/")[0])

    def names(self) -> Iterator[str]:
        """The names of all artifact files."""
        for run in _entries_of(self.path):
            if run.is_dir(follow_symlinks=False):
                files = (file.name for file in _entries_of(run) if file.is_file(follow_symlinks=False))
                yield from filter(NAME.fullmatch, (f"{run.name}/{file}" for file in files))

    def mark(self, identity: str, database: str) -> bool:
        """Leaves a file that says which database uses the folder. Returns False if there was one."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with open(os.open(self.path / f"database-{identity}.txt", WRITE, 0o666), "w") as mark:
                mark.write(f"{database} stores files here.\n")
        except FileExistsError:
            return False
        return True

    def databases(self) -> set[str]:
        """The identities of the databases that use the folder."""
        return {found[1] for entry in _entries_of(self.path) if (found := MARK.fullmatch(entry.name))}

    def _create(self, name: str, create: Callable[[int, str], None]) -> None:
        """Calls ``create`` with the folder of the file, as a descriptor, and the file's name in it.

        Tries twice, since ``remove`` may delete the folder as long as it is empty.
        """
        try:
            self._create_once(name, create)
        except FileNotFoundError:
            self._create_once(name, create)

    def _create_once(self, name: str, create: Callable[[int, str], None]) -> None:
        run = _check_name(name).partition("/")[0]
        self.path.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.path / run)
        with self._run_folder(name) as (folder, file):
            create(folder, file)
            os.fsync(folder)

    @contextmanager
    def _run_folder(self, name: str) -> Iterator[tuple[int, str]]:
        """The open folder of the file, as a descriptor, and the file's name in it."""
        run, _, file = _check_name(name).partition("/")
        folder = os.open(self.path / run, FOLDER)
        try:
            yield folder, file
        finally:
            os.close(folder)


def _entries_of(folder: os.PathLike[str]) -> list[os.DirEntry[str]]:
    """The entries of a folder, or none if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise OutsideFolder(name, "is not the name of an artifact")
    return name
