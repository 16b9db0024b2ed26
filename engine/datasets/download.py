"""Downloads with progress; a file is saved completely or not at all."""

import hashlib
import http.client
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from engine.datasets import Progress

TIMEOUT_S = 10  # per network operation
CHUNK_BYTES = 1 << 16
FAILED = (OSError, http.client.HTTPException)  # what ``fetch`` and ``save`` raise


def fetch(url: str, name: str, progress: Progress | None = None) -> bytes:
    """Downloads ``url``, which torchvision provides; ``name`` is used in progress messages."""
    return b"".join(_pieces(url, name, progress))


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def save(path: Path, content: bytes) -> None:
    """Writes atomically, also if two runs download at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(content)
    partial.replace(path)


def _pieces(url: str, name: str, progress: Progress | None) -> Iterator[bytes]:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        total, done = response.length or 0, 0
        while chunk := response.read(CHUNK_BYTES):
            yield chunk
            done += len(chunk)
            if progress is not None and total:
                progress(f"Downloading {name}", done / total)
