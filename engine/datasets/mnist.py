"""MNIST: 70,000 handwritten digits, 28 x 28 pixels."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.idx import IdxFiles
from engine.datasets.official import OfficialOptions, official_bytes

FILES = IdxFiles(
    "MNIST",
    md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
)


@DATASETS.register(
    "mnist",
    title="MNIST",
    paper="LeCun, Bottou, Bengio, Haffner. Gradient-Based Learning Applied to Document Recognition. "
    "Proceedings of the IEEE, 1998.",
)
@dataclass(frozen=True)
class Mnist:
    options: OfficialOptions
    needs_download: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = FILES.patterns

    def present(self, data_dir: Path) -> bool:
        return FILES.present(data_dir)

    def memory(self, data_dir: Path) -> int:
        return official_bytes(70_000 * 28 * 28, self.options)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        return FILES.load(data_dir, self.options, tuple(str(digit) for digit in range(10)), progress)
