"""A digest of the source files, which tells two versions of the code or of plugins apart."""

import hashlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from engine.core.paths import ROOT, plugin_files, plugin_folders


def code_digest() -> str:
    """The first 12 digits of a digest over the files of ``engine``, ``storage`` and the plugins."""
    return _digest(tuple(plugin_folders()), plugin_files())


@lru_cache(maxsize=4)
def _digest(folders: tuple[Path, ...], plugins: tuple[tuple[str, int, int], ...]) -> str:
    own = [(file, ROOT) for name in ("engine", "storage") for file in sorted((ROOT / name).rglob("*.py"))]
    theirs = [(Path(path), folder) for folder in folders for path, *_ in plugins if Path(path).is_relative_to(folder)]
    digest = hashlib.sha256()
    for file, folder in (*own, *theirs):
        with suppress(OSError):  # a plugin may have just been removed
            digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
