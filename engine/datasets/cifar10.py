"""CIFAR-10: 60,000 color images of 10 classes, 32 x 32 pixels."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.cifar import CifarFiles
from engine.datasets.official import OfficialOptions, official_bytes

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILES = CifarFiles(
    "CIFAR10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    npz="cifar10.npz",
    files=(*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"),
)


@DATASETS.register(
    "cifar10", title="CIFAR-10", paper="Krizhevsky. Learning Multiple Layers of Features from Tiny Images. 2009."
)
@dataclass(frozen=True)
class Cifar10:
    options: OfficialOptions
    needs_download: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = FILES.patterns

    def present(self, data_dir: Path) -> bool:
        return FILES.present(data_dir)

    def memory(self, data_dir: Path) -> int:
        return official_bytes(60_000 * 3 * 32 * 32, self.options)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        return FILES.load(data_dir, self.options, CLASS_NAMES, progress)
