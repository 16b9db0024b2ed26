"""FEMNIST: handwritten digits and letters of 62 classes, 28 x 28 pixels, by writer. The writers are the clients.

Read from the files that LEAF's scripts write, ``DATA_DIR/femnist/data/train/*.json`` and ``test/*.json``, with the
writers they contain, or from ``DATA_DIR/femnist/femnist_leaf.npz``. Paper is white (255), as LEAF writes it, so most
pixels are large: learning rates that suit MNIST diverge, unless ``standardize`` is set.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.leaf import (
    PARTS,
    leaf_bytes,
    leaf_files,
    leaf_folder,
    leaf_patterns,
    leaf_sizes,
    leaf_users,
    unreadable,
)
from engine.datasets.npz import BROKEN_ARCHIVE, images_and_labels, labels, npz_bytes, read_arrays
from engine.datasets.official import OfficialOptions, Part, official_bytes, official_pool

SIDE = 28
FOLDER, NPZ = "femnist", "femnist_leaf.npz"
CLASS_NAMES = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
NPZ_ARRAYS = "x_train [n, 28, 28] uint8, y_train [n] in 0..61, client_train [n] whole numbers, and the same of test"
_PARSED = 12  # measured: bytes of memory for a byte of JSON
_WRITTEN = 5  # bytes of JSON for a pixel at least, as LEAF writes white ones: "1.0, "


@DATASETS.register(
    "femnist",
    title="FEMNIST (LEAF, by writer)",
    short="FEMNIST",
    paper="Caldas, Duddu, Wu, Li, Konečný, McMahan, Smith, Talwalkar. LEAF: A Benchmark for Federated Settings. 2018; "
    "Cohen et al. EMNIST. 2017.",
)
@dataclass(frozen=True)
class Femnist:
    options: OfficialOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}/{NPZ}", *leaf_patterns(FOLDER))

    def present(self, data_dir: Path) -> bool:
        return leaf_folder(data_dir / FOLDER) is not None or os.path.isfile(data_dir / FOLDER / NPZ)

    def memory(self, data_dir: Path) -> int:
        home = data_dir / FOLDER
        if leaf_folder(home) is None and os.path.isfile(home / NPZ):
            try:
                return npz_bytes(home / NPZ)
            except BROKEN_ARCHIVE as error:
                raise _unusable(home / NPZ, str(error)) from error
        return official_bytes(sum(leaf_sizes(home)) // _WRITTEN, self.options) + leaf_bytes(home, _PARSED)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        home = data_dir / FOLDER
        folder = leaf_folder(home)
        if folder is not None:
            numbers: dict[str, int] = {}  # of the writers of both parts
            train, test = (_part_of_json(folder, part, numbers, progress) for part in PARTS)
        elif os.path.isfile(home / NPZ):
            train, test = (_part_of_npz(home / NPZ, part) for part in PARTS)
        else:
            raise DataUnavailable(
                f"there is no {home / 'data' / 'train'} with JSON files of LEAF, nor {home / NPZ} ({NPZ_ARRAYS}); run "
                f"LEAF's preprocess.sh for femnist and copy its folder data into {home}, or set DATA_DIR"
            )
        return official_pool(train, test, self.options, CLASS_NAMES, scale=1 / 255)


def _part_of_json(folder: Path, part: str, numbers: dict[str, int], progress: Progress | None) -> Part:
    x, y, client = [], [], []
    paths = leaf_files(folder, part)
    for i, path in enumerate(paths):
        if progress is not None:
            progress(f"Reading {path.name}", i / len(paths))
        for user, samples, own in leaf_users(path):
            if not samples:
                continue
            try:
                x.append(_images(samples))
                y.append(labels(np.array(own), len(samples), len(CLASS_NAMES)))
            except (TypeError, ValueError) as error:
                raise unreadable(path, f"user {user}: {error}") from error
            client.append(np.full(len(samples), numbers.setdefault(user, len(numbers))))
    if not x:
        raise unreadable(folder / part, "its files have no samples")
    return Part(np.concatenate(x), np.concatenate(y), np.concatenate(client))


def _images(samples: list[list[float]]) -> np.ndarray:
    """[n, 1, 28, 28] uint8 from gray levels in 0..1. Raises ValueError or TypeError with the reason."""
    values = np.array(samples, np.float32)
    if values.shape[1:] != (SIDE * SIDE,) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"each sample must have {SIDE * SIDE} values in 0..1")
    return np.rint(values * 255).astype(np.uint8).reshape(-1, 1, SIDE, SIDE)


def _part_of_npz(path: Path, part: str) -> Part:
    owner = f"client_{part}"
    try:
        x, y = images_and_labels(path, f"x_{part}", f"y_{part}", (SIDE, SIDE), len(CLASS_NAMES))
        client = read_arrays(path, {owner: (None,)})[owner]
        if client.shape != y.shape or client.dtype.kind not in "iu":
            raise ValueError(f"{owner} has shape {list(client.shape)} and dtype {client.dtype}, must be [n] integers")
    except ValueError as error:
        raise _unusable(path, str(error)) from error
    return Part(x, y, client.astype(np.int64))


def _unusable(path: Path, reason: str) -> DataUnavailable:
    return DataUnavailable(f"{path}: {reason}. Expected: {NPZ_ARRAYS}, saved with numpy.savez")
