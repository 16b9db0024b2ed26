"""Uploaded files: checked by the engine, stored under DATA_DIR/uploads, never executed or unpickled."""

import fcntl
import hashlib
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

from app.access import permits
from app.access.errors import NotAllowed
from app.access.limits import upload_folder, why_not_store
from app.data import queries
from engine.core.errors import DataUnavailable
from engine.core.paths import default_data_dir

MAX_MEGABYTES = 200
KINDS = ("npz", "csv", "parquet")
LOCK_S, TICK_S = 30.0, 0.02  # how long to wait for another upload of the same person


def save_upload(name: str, data: bytes) -> str:
    """Store the file; returns its path below DATA_DIR. A person's equal files are stored once.

    Raises DataUnavailable, or NotAllowed.
    """
    person = permits.require("upload")
    kind = Path(name).suffix.lower().lstrip(".")
    if kind not in KINDS:
        raise DataUnavailable(f"{name}: cannot read files that end in .{kind}; known: {', '.join(KINDS)}")
    if len(data) > MAX_MEGABYTES << 20:
        raise DataUnavailable(f"{name} is larger than {MAX_MEGABYTES} MB; put it into DATA_DIR and enter its path")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:60] or "data"
    relative = f"{upload_folder(person)}/{stem}-{hashlib.sha256(data).hexdigest()[:12]}.{kind}"
    path = default_data_dir() / relative
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent) if person.name else nullcontext():
            if person.name and (full := why_not_store(person, queries.store().shares.usage(person.name), len(data))):
                raise NotAllowed(full)
            if not path.exists():
                _write(path, data)
    except OSError as error:
        raise DataUnavailable(
            f"{path}: cannot be written ({error.strerror}); check DATA_DIR and its free space"
        ) from error
    return relative


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lets a person check the limit and write a file for one upload at a time, also across web servers."""
    with (folder / ".lock").open("ab") as file:
        until = time.monotonic() + LOCK_S
        while not _has_lock(file):
            if time.monotonic() > until:
                raise DataUnavailable("Another upload of yours is being stored; try again in a moment")
            time.sleep(TICK_S)
        yield


def _has_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    """The file appears under its name only when it is complete."""
    unfinished = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.tmp")  # not that of an equal upload at the same time
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
