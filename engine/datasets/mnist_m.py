"""MNIST-M: MNIST digits blended with patches of photographs, 32 x 32 pixels, in color.

Read from ``DATA_DIR/mnist_m/mnist_m.npz`` or from the authors' files with as many images as they contain:

    mnist_m/mnist_m_train/*.png          59,001 training images; mnist_m_test has 9,001
    mnist_m/mnist_m_train_labels.txt     file and label, one per line

Image i of a part is digit i of the same part of MNIST.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.image_folder import pixels
from engine.datasets.npz import images_and_labels, labels
from engine.datasets.official import OfficialOptions, Part, official_bytes, official_pool

SIDE = 32
FOLDER, NPZ = "mnist_m", "mnist_m.npz"
PARTS = ("train", "test")
CLASS_NAMES = tuple(str(digit) for digit in range(10))
NPZ_ARRAYS = "x_train [n, 32, 32, 3] uint8, y_train [n] in 0..9, x_test and y_test"


@DATASETS.register(
    "mnist_m",
    title="MNIST-M",
    paper="Ganin, Ustinova, Ajakan, Germain, Larochelle, Laviolette, Marchand, Lempitsky. Domain-Adversarial Training "
    "of Neural Networks. JMLR 2016.",
)
@dataclass(frozen=True)
class MnistM:
    options: OfficialOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}/*",)

    def present(self, data_dir: Path) -> bool:
        return present(data_dir)

    def memory(self, data_dir: Path) -> int:
        return official_bytes(68_002 * 3 * SIDE * SIDE, self.options)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        train, test = parts(data_dir, progress)
        return official_pool(train, test, self.options, CLASS_NAMES, scale=1 / 255)


def present(data_dir: Path) -> bool:
    return has_images(data_dir) or os.path.isfile(data_dir / FOLDER / NPZ)


def has_images(data_dir: Path) -> bool:
    return all(os.path.isfile(data_dir / FOLDER / f"mnist_m_{part}_labels.txt") for part in PARTS)


def parts(data_dir: Path, progress: Progress | None = None) -> tuple[Part, Part]:
    """The training and the test part, [M, 3, 32, 32] uint8. Raises DataUnavailable."""
    home = data_dir / FOLDER
    if has_images(data_dir):
        return _part_of_images(home, "train", progress), _part_of_images(home, "test", progress)
    if os.path.isfile(home / NPZ):
        return _part_of_npz(home / NPZ, "train"), _part_of_npz(home / NPZ, "test")
    raise DataUnavailable(
        f"there is no {home / NPZ} ({NPZ_ARRAYS}), nor the images {home / 'mnist_m_train'} with "
        f"{home / 'mnist_m_train_labels.txt'}; unpack the authors' archive into {data_dir}, or set DATA_DIR"
    )


def _part_of_images(home: Path, part: str, progress: Progress | None) -> Part:
    listed = home / f"mnist_m_{part}_labels.txt"
    try:
        lines = [line.split() for line in listed.read_text(encoding="ascii").splitlines() if line.strip()]
        if not lines or any(len(line) != 2 or not line[1].isdigit() for line in lines):
            raise ValueError("each line must have a file and a label, such as 00000000.png 5")
        y = labels(np.array([int(label) for _, label in lines]), len(lines), len(CLASS_NAMES), "a label")
        x = np.empty((len(lines), 3, SIDE, SIDE), np.uint8)
        for i, (name, _) in enumerate(lines):
            x[i] = _image(home / f"mnist_m_{part}" / name, name)
            if progress is not None and i % 1000 == 0:
                progress("Reading images", i / len(lines))
    except (OSError, ValueError) as error:
        raise DataUnavailable(f"{listed}: {error}; unpack the authors' archive again") from error
    return Part(x, y)


def _image(path: Path, name: str) -> np.ndarray:
    """Raises ValueError with the reason."""
    found = pixels(path, name, "RGB")
    if found.shape[1:] != (SIDE, SIDE):
        raise ValueError(f"{name} has {found.shape[2]} x {found.shape[1]} pixels, not {SIDE} x {SIDE}")
    return found


def _part_of_npz(path: Path, part: str) -> Part:
    try:
        return Part(*images_and_labels(path, f"x_{part}", f"y_{part}", (SIDE, SIDE, 3), len(CLASS_NAMES)))
    except ValueError as error:
        raise DataUnavailable(f"{path}: {error}. Expected: {NPZ_ARRAYS}, saved with numpy.savez") from error
