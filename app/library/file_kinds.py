"""What a file is that somebody takes for exported runs: said in words, with the place where it belongs."""

import json
import zipfile
from io import BytesIO

CONFIG_BYTES = 10**6  # more than any has
STARTS = (
    (b"SQLite format 3\0", "a database: start the app on it with DATABASE_URL"),
    (b"PAR1", "a Parquet table: tables have no partition and no configuration; export the runs as JSON"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x93NUMPY", "a NumPy array: data of your own belong into Set up"),
    (b"\x1f\x8b", "a gzip file: unpack it first"),
)
ENDINGS = {
    "csv": "a table: it has no partition and no configuration; export the runs as JSON",
    "yaml": "a configuration: python -m engine run computes it",
    "yml": "a configuration: python -m engine run computes it",
    "npz": "data: they belong into Set up, as data of your own",
    "safetensors": "a model without its run: export the run as a bundle, which has both",
    "html": "a page, perhaps a report: export the runs as JSON",
}


def what_else(name: str, data: bytes) -> str | None:
    """Why it cannot be a file of runs, or None where it may be one: ``notes.csv is a table: ...``."""
    if not data.strip():
        return f"{name} is empty"
    found = next((kind for start, kind in STARTS if data.startswith(start)), None)
    if found is None and data.startswith(b"PK"):
        found = _kind_of_zip(data)
    elif found is None:
        found = ENDINGS.get(name.lower().rpartition(".")[2]) or _kind_of_json(data)
    return f"{name} is {found}" if found else None


def _kind_of_zip(data: bytes) -> str | None:
    """None for archives, which say themselves what they hold."""
    try:
        names = zipfile.ZipFile(BytesIO(data)).namelist()
    except (zipfile.BadZipFile, ValueError):
        return "a ZIP file that is cut off or damaged: export or download it again"
    return ENDINGS["npz"] if any(name.endswith(".npy") for name in names) else None


def _kind_of_json(data: bytes) -> str | None:
    """A configuration; None for what the import itself explains better."""
    try:
        document = json.loads(data) if len(data) <= CONFIG_BYTES else None
    except (ValueError, RecursionError):
        return None
    if isinstance(document, dict) and "algorithms" in document and "runs" not in document:
        return "a configuration without results: python -m engine run computes it"
    return None
