"""Uploaded files: the folder of each person below DATA_DIR, and which files there are."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.access.people import Person
from engine.core.paths import default_data_dir

UPLOADS = "uploads"  # below DATA_DIR
KINDS = ("npz", "csv", "parquet")
ENDINGS = tuple(f".{kind}" for kind in KINDS)


@dataclass(frozen=True)
class UploadedFile:
    path: str  # below DATA_DIR
    size_bytes: int
    uploaded_at: datetime

    @property
    def name(self) -> str:
        """Without the hash that ``save_upload`` appends."""
        return re.sub(r"-[0-9a-f]{12}(?=\.\w+$)", "", Path(self.path).name)


def upload_folder(person: Person) -> str:
    """Where this person's uploads are stored, below DATA_DIR: the name does not show who it is."""
    if not person.name:
        return UPLOADS
    return f"{UPLOADS}/{hashlib.sha256(person.name.encode()).hexdigest()[:16]}"


def files_of(person: Person) -> list[UploadedFile]:
    """Largest first."""
    return _files([upload_folder(person)])


def files_of_all() -> list[UploadedFile]:
    """Largest first."""
    entries = [entry for entry in _entries(UPLOADS) if re.fullmatch(r"[0-9a-f]{16}", entry.name)]
    return _files([UPLOADS, *(f"{UPLOADS}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False))])


def _files(folders: list[str]) -> list[UploadedFile]:
    """Without links, locks and unfinished files; the last two have none of these endings."""
    found = []
    for folder in folders:
        for entry in _entries(folder):
            if entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(ENDINGS):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    state = entry.stat(follow_symlinks=False)
                    at = datetime.fromtimestamp(state.st_mtime, UTC)
                    found.append(UploadedFile(f"{folder}/{entry.name}", state.st_size, at))
    return sorted(found, key=lambda file: (-file.size_bytes, file.path))


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(default_data_dir() / folder) as entries:
        yield from entries
