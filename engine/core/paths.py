"""Paths of the project and its files."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"


def default_data_dir() -> Path:
    """``DATA_DIR``, by default data/ in the project's root."""
    return Path(os.environ.get("DATA_DIR") or ROOT / "data")
