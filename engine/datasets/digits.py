"""Digits: 1,797 real handwritten digits, 8 x 8 pixels, bundled with scikit-learn. Needs no download."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress, standardize

FILE = "datasets/data/digits.csv.gz"  # of scikit-learn; a row has 64 pixels and the digit


class DigitsOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("standardize",)

    standardize: bool = Field(
        False,
        title="Standardize",
        description="Subtract the mean of all pixels and divide by their standard deviation, both over the whole pool, "
        "including later test samples.",
    )


@DATASETS.register(
    "digits",
    title="Digits (8 x 8)",
    short="Digits",
    paper="Alpaydin, Kaynak. Optical Recognition of Handwritten Digits. UCI Repository, 1998.",
)
@dataclass(frozen=True)
class Digits:
    options: DigitsOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process

    def present(self, data_dir: Path) -> bool:
        return True

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        x, y = _read()
        names = tuple(str(digit) for digit in range(10))
        if self.options.standardize:
            return Pool(standardize(x, x), y, num_classes=10, class_names=names)
        return Pool(x, y, num_classes=10, scale=1 / 16, class_names=names)


@cache
def _read() -> tuple[np.ndarray, np.ndarray]:
    """The images, 0..16, and their digits, as of ``sklearn.datasets.load_digits``, which takes seconds to import."""
    package = find_spec("sklearn")
    assert package is not None and package.origin is not None
    table = np.loadtxt(Path(package.origin).parent / FILE, dtype=np.uint8, delimiter=",")
    return table[:, :-1].reshape(-1, 1, 8, 8).copy(), table[:, -1].astype(np.int64)
