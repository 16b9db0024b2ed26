"""Detects file types by their first bytes, since a file name can be wrong."""

from pathlib import Path

_BEGINNINGS = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (NPZ and XLSX files are such archives)",
    b"PAR1": "a Parquet file",
    b"\x93NUMPY": "a NumPy array (NPY)",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"(\xb5/\xfd": "a zstd archive",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x7fELF": "a program",
    b"\x80\x04\x95": "a Python pickle",
}
_NEEDED = {".npz": b"PK", ".parquet": b"PAR1"}


def mismatch(path: Path) -> str | None:
    """``not a CSV file; it looks like a PNG image`` if the content contradicts the file's extension, else None."""
    with open(path, "rb") as file:
        head = file.read(1024)
    ending = path.suffix.lower()
    if ending in _NEEDED:
        fits = head.startswith(_NEEDED[ending])
    else:
        fits = b"\0" not in head and not any(head.startswith(start) for start in _BEGINNINGS if start != b"BM")
    if fits or not head:
        return None
    kind = next((kind for start, kind in _BEGINNINGS.items() if head.startswith(start)), None)
    looks = kind or ("binary data" if b"\0" in head else "text")
    name = {".npz": "an NPZ file", ".parquet": "a Parquet file"}.get(ending, "a CSV file")
    return f"not {name}; it looks like {looks}"
