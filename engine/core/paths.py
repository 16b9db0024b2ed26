"""Paths of the project and its files."""

import os
from collections.abc import Mapping
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
