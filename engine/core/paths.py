"""Paths of the project and its files."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
PLUGINS = "FEDSCAPE_PLUGINS"  # folders, separated as in PATH


def default_data_dir() -> Path:
    """``DATA_DIR``, by default data/ in the project's root."""
    return Path(os.environ.get("DATA_DIR") or ROOT / "data")


def plugin_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders of ``FEDSCAPE_PLUGINS``: absolute, so that they mean the same to a process in another folder."""
    return [Path(name).absolute() for name in environment.get(PLUGINS, "").split(os.pathsep) if name]


def plugin_files() -> tuple[tuple[str, int, int], ...]:
    """Path, time of the last change in ns, and size of each .py file in the plugin folders and their direct subfolders.

    An edit changes them. Folders whose names begin with a dot are left out.
    """
    found = []
    for folder in plugin_folders():
        for path in sorted((*folder.glob("*.py"), *folder.glob("[!.]*/*.py"))):
            with suppress(OSError):  # it has just been removed
                state = path.stat()
                found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)
