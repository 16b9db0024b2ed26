"""Fashion-MNIST: 70,000 images of clothing, 28 x 28 pixels."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.idx import IdxFiles
from engine.datasets.official import OfficialOptions, official_bytes

FILES = IdxFiles(
    "FashionMNIST",
    md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
)
CLASS_NAMES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


@DATASETS.register(
    "fashion_mnist",
    title="Fashion-MNIST",
    paper="Xiao, Rasul, Vollgraf. Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
    "Learning Algorithms. 2017. https://arxiv.org/abs/1708.07747",
)
@dataclass(frozen=True)
class FashionMnist:
    options: OfficialOptions
    needs_download: ClassVar[bool] = True
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = FILES.patterns

    def present(self, data_dir: Path) -> bool:
        return FILES.present(data_dir)

    def memory(self, data_dir: Path) -> int:
        return official_bytes(70_000 * 28 * 28, self.options)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        return FILES.load(data_dir, self.options, CLASS_NAMES, progress)
