"""USPS: 9,298 handwritten digits of envelopes, 16 x 16 pixels, in gray.

Read from ``usps.bz2`` and ``usps.t.bz2`` (LIBSVM's files, which torchvision uses too) in ``DATA_DIR/usps`` or DATA_DIR,
or from ``DATA_DIR/usps/usps.npz``; downloaded if missing. The pixel values of LIBSVM's files were preprocessed
differently from those of other releases.
"""

import bz2
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.download import FAILED, fetch, md5_of, save
from engine.datasets.npz import images_and_labels
from engine.datasets.official import OfficialOptions, Part, official_bytes, official_pool

SIDE = 16
FOLDER, NPZ = "usps", "usps.npz"
FILES = {"train": "usps.bz2", "test": "usps.t.bz2"}
CLASS_NAMES = tuple(str(digit) for digit in range(10))
NPZ_ARRAYS = "x_train [n, 16, 16] uint8, y_train [n] in 0..9, x_test and y_test"


@DATASETS.register(
    "usps",
    title="USPS",
    paper="Hull. A Database for Handwritten Text Recognition Research. IEEE Transactions on Pattern Analysis and "
    "Machine Intelligence, 1994.",
)
@dataclass(frozen=True)
class Usps:
    options: OfficialOptions
    needs_download: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}/*", *FILES.values())

    def present(self, data_dir: Path) -> bool:
        return present(data_dir)

    def memory(self, data_dir: Path) -> int:
        return official_bytes(9_298 * SIDE * SIDE, self.options)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is corrupt, or missing and not downloadable."""
        train, test = parts(data_dir, progress)
        return official_pool(train, test, self.options, CLASS_NAMES, scale=1 / 255)


def present(data_dir: Path) -> bool:
    return has_official(data_dir) or os.path.isfile(data_dir / FOLDER / NPZ)


def has_official(data_dir: Path) -> bool:
    return all(_existing(name, data_dir) is not None for name in FILES.values())


def parts(data_dir: Path, progress: Progress | None = None) -> tuple[Part, Part]:
    """The training and the test part, [M, 1, 16, 16] uint8. Raises DataUnavailable."""
    arrays = data_dir / FOLDER / NPZ
    if os.path.isfile(arrays) and not has_official(data_dir):
        return _part_of_npz(arrays, "train"), _part_of_npz(arrays, "test")
    files = _official()
    train, test = (_read(part, files, data_dir, progress) for part in FILES)
    return train, test


def _read(part: str, files: Mapping[str, Any], data_dir: Path, progress: Progress | None) -> Part:
    url, name, expected = files[part]
    path = _existing(name, data_dir)
    content = _download(url, name, data_dir, progress) if path is None else path.read_bytes()
    if md5_of(content) != expected:
        origin, advice = (url, "try again") if path is None else (path, "delete it to have it downloaded again")
        raise DataUnavailable(
            f"{origin} is corrupt or not the official file (md5 {md5_of(content)}, expected {expected}); {advice}, or "
            f"put {NPZ} ({NPZ_ARRAYS}) into {data_dir / FOLDER}"
        )
    if path is None:
        save(data_dir / FOLDER / name, content)
    return libsvm_part(bz2.decompress(content))


def libsvm_part(text: bytes) -> Part:
    """Lines ``label 1:v 2:v ... 256:v`` with labels 1..10 and v in [-1, 1]; pixels are rounded down as in torchvision.

    The content is that of a file with the expected checksum.
    """
    rows = [line.replace(b":", b" ").split()[::2] for line in text.splitlines()]  # label, v, v, ...
    table = np.array(rows).astype(np.float32)
    pixels = ((table[:, 1:] + 1) / 2 * 255).astype(np.uint8)
    return Part(pixels.reshape(-1, 1, SIDE, SIDE), table[:, 0].astype(np.int64) - 1)


def _part_of_npz(path: Path, part: str) -> Part:
    try:
        return Part(*images_and_labels(path, f"x_{part}", f"y_{part}", (SIDE, SIDE), len(CLASS_NAMES)))
    except ValueError as error:
        raise DataUnavailable(f"{path}: {error}. Expected: {NPZ_ARRAYS}, saved with numpy.savez") from error


def _download(url: str, name: str, data_dir: Path, progress: Progress | None) -> bytes:
    try:
        return fetch(url, name, progress)
    except FAILED as error:
        raise DataUnavailable(
            f"there is no {data_dir / FOLDER / name}, and it could not be downloaded ({url}: {error}); put "
            f"{' and '.join(FILES.values())}, or {NPZ} ({NPZ_ARRAYS}), into {data_dir / FOLDER}, or set DATA_DIR"
        ) from error


def _existing(name: str, data_dir: Path) -> Path | None:
    return next((path for path in (data_dir / FOLDER / name, data_dir / name) if os.path.isfile(path)), None)


def _official() -> Mapping[str, Any]:
    """URL, name and MD5 of the files of each part."""
    from torchvision.datasets import USPS  # slow to import

    files: Mapping[str, Any] = USPS.split_list
    return files
