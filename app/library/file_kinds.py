"""Explains what an uploaded file is if it is not an export of runs, and how to use it."""

import json
import zipfile
from io import BytesIO

from storage.archive import DAMAGE_ERRORS

CONFIG_BYTES = 10**6  # larger than any configuration
STARTS = (
    (b"SQLite format 3\0", "a database: start the app on it with DATABASE_URL"),
    (b"PAR1", "a Parquet table: tables have no partition and no configuration; export the runs as JSON"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x93NUMPY", "a NumPy array: upload your own data in Set up"),
    (b"\x1f\x8b", "a gzip file: unpack it first"),
)
ENDINGS = {
    "csv": "a table: it has no partition and no configuration; export the runs as JSON",
    "yaml": "a configuration: run it with python -m engine run",
    "yml": "a configuration: run it with python -m engine run",
    "npz": "a NumPy archive: upload your own data in Set up",
    "safetensors": "a model without its run: export the run as a bundle, which has both",
    "html": "a web page, perhaps a report: export the runs as JSON",
}


def what_else(name: str, data: bytes) -> str | None:
    """Why it cannot be an export of runs, or None if it may be one: ``notes.csv is a table: ...``."""
    if not data.strip():
        return f"{name} is empty"
    found = next((kind for start, kind in STARTS if data.startswith(start)), None)
    if found is None and data.startswith(b"PK"):
        found = _kind_of_zip(data)
    elif found is None:
        found = ENDINGS.get(name.lower().rpartition(".")[2]) or _kind_of_json(data)
    return f"{name} is {found}" if found else None


def _kind_of_zip(data: bytes) -> str | None:
    """The kind of an archive; None if the import checks its contents itself."""
    try:
        names = zipfile.ZipFile(BytesIO(data)).namelist()
    except DAMAGE_ERRORS:
        return "an incomplete or damaged ZIP file: export or download it again"
    return ENDINGS["npz"] if any(name.endswith(".npy") for name in names) else None


def _kind_of_json(data: bytes) -> str | None:
    """A configuration; None for files that the import explains better."""
    try:
        document = json.loads(data) if len(data) <= CONFIG_BYTES else None
    except (ValueError, RecursionError):
        return None
    if isinstance(document, dict) and "algorithms" in document and "runs" not in document:
        return "a configuration without results: run it with python -m engine run"
    return None
