"""Reads the JSON files that LEAF's scripts write: the samples of users, in a training and a test part.

Caldas et al. LEAF: A Benchmark for Federated Settings. 2018. https://arxiv.org/abs/1812.01097. The files of a part are
``data/train/*.json`` and ``data/test/*.json``, each ``{users: [...], user_data: {user: {x: [...], y: [...]}}}``.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.core.errors import DataUnavailable

PARTS = ("train", "test")


def leaf_patterns(folder: str) -> tuple[str, ...]:
    """Patterns of the files of both parts, for ``folder`` in DATA_DIR."""
    return tuple(f"{folder}/{data}{part}/*.json" for data in ("data/", "") for part in PARTS)


def leaf_folder(home: Path) -> Path | None:
    """``home/data`` or ``home``, if it has files of both parts."""
    return next((folder for folder in (home / "data", home) if all(leaf_files(folder, p) for p in PARTS)), None)


def leaf_files(folder: Path, part: str) -> list[Path]:
    return sorted((folder / part).glob("*.json"))


def leaf_users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """(user, samples, labels) of each user of a file. Raises DataUnavailable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(content.get("user_data"), dict):
            raise ValueError("it must be an object with user_data")
        for user, own in content["user_data"].items():
            if not isinstance(own, dict) or not isinstance(own.get("x"), list) or not isinstance(own.get("y"), list):
                raise ValueError(f"user {user} must have lists x and y")
            if len(own["x"]) != len(own["y"]):
                raise ValueError(f"user {user} has {len(own['x'])} samples and {len(own['y'])} labels")
            yield user, own["x"], own["y"]
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, reason: object) -> DataUnavailable:
    return DataUnavailable(f"{path}: {reason}; write it again with LEAF's preprocess.sh")


def leaf_sizes(home: Path) -> list[int]:
    """The sizes of all files in bytes."""
    folder = leaf_folder(home)
    return [] if folder is None else [os.path.getsize(path) for part in PARTS for path in leaf_files(folder, part)]


def leaf_bytes(home: Path, values: int) -> int:
    """The memory for parsing the largest file, of up to ``values`` bytes per stored byte, without its samples."""
    return values * max(leaf_sizes(home), default=0)
