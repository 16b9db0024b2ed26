"""CIFAR-100: 60,000 color images of 100 classes (the fine labels), 32 x 32 pixels."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.cifar import CifarFiles
from engine.datasets.official import OfficialOptions, official_bytes

FILES = CifarFiles(
    "CIFAR100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    npz="cifar100.npz",
    files=("train", "test", "meta"),
)
CLASS_NAMES = (
    "apple",
    "aquarium_fish",
    "baby",
    "bear",
    "beaver",
    "bed",
    "bee",
    "beetle",
    "bicycle",
    "bottle",
    "bowl",
    "boy",
    "bridge",
    "bus",
    "butterfly",
    "camel",
    "can",
    "castle",
    "caterpillar",
    "cattle",
    "chair",
    "chimpanzee",
    "clock",
    "cloud",
    "cockroach",
    "couch",
    "crab",
    "crocodile",
    "cup",
    "dinosaur",
    "dolphin",
    "elephant",
    "flatfish",
    "forest",
    "fox",
    "girl",
    "hamster",
    "house",
    "kangaroo",
    "keyboard",
    "lamp",
    "lawn_mower",
    "leopard",
    "lion",
    "lizard",
    "lobster",
    "man",
    "maple_tree",
    "motorcycle",
    "mountain",
    "mouse",
    "mushroom",
    "oak_tree",
    "orange",
    "orchid",
    "otter",
    "palm_tree",
    "pear",
    "pickup_truck",
    "pine_tree",
    "plain",
    "plate",
    "poppy",
    "porcupine",
    "possum",
    "rabbit",
    "raccoon",
    "ray",
    "road",
    "rocket",
    "rose",
    "sea",
    "seal",
    "shark",
    "shrew",
    "skunk",
    "skyscraper",
    "snail",
    "snake",
    "spider",
    "squirrel",
    "streetcar",
    "sunflower",
    "sweet_pepper",
    "table",
    "tank",
    "telephone",
    "television",
    "tiger",
    "tractor",
    "train",
    "trout",
    "tulip",
    "turtle",
    "wardrobe",
    "whale",
    "willow_tree",
    "wolf",
    "woman",
    "worm",
)


@DATASETS.register(
    "cifar100", title="CIFAR-100", paper="Krizhevsky. Learning Multiple Layers of Features from Tiny Images. 2009."
)
@dataclass(frozen=True)
class Cifar100:
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
