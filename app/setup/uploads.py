"""Uploaded files: checked by the engine, stored under DATA_DIR/uploads, never executed or unpickled."""

import hashlib
import re
from pathlib import Path

from app.access import permits
from app.access.errors import NotAllowed
from app.access.limits import upload_folder, why_not_store
from app.data import queries
from engine.core.errors import DataUnavailable
from engine.core.paths import default_data_dir

MAX_MEGABYTES = 200
KINDS = ("npz", "csv", "parquet")


def save_upload(name: str, data: bytes) -> str:
    """Store the file; returns its path below DATA_DIR. A person's equal files are stored once.

    Raises DataUnavailable, or NotAllowed.
    """
    person = permits.require("upload")
    kind = Path(name).suffix.lower().lstrip(".")
    if kind not in KINDS:
        raise DataUnavailable(f"{name}: cannot read files that end in .{kind}; known: {', '.join(KINDS)}")
    if len(data) > MAX_MEGABYTES << 20:
        raise DataUnavailable(f"{name}: has more than {MAX_MEGABYTES} MiB; put it into DATA_DIR and enter its path")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:60] or "data"
    if person.name and (full := why_not_store(person, queries.store().shares.usage(person.name), len(data))):
        raise NotAllowed(full)
    relative = f"{upload_folder(person)}/{stem}-{hashlib.sha256(data).hexdigest()[:12]}.{kind}"
    path = default_data_dir() / relative
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            unfinished = path.with_suffix(".tmp")
            unfinished.write_bytes(data)
            unfinished.replace(path)
    except OSError as error:
        raise DataUnavailable(
            f"{path}: cannot be written ({error.strerror}); check DATA_DIR and its free space"
        ) from error
    return relative
