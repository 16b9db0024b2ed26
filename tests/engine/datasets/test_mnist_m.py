"""MNIST-M, on four images in the authors' layout, and as arrays."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.mnist_m import MnistM
from engine.datasets.official import OfficialOptions

DIGITS = {"train": (4, 0, 9), "test": (7,)}


def image(digit: int) -> np.ndarray:
    """[32, 32, 3], each channel with its own gray level."""
    return np.full((32, 32, 3), (digit, 20 + digit, 40 + digit), np.uint8)


def save_images(data_dir: Path) -> Path:
    home = data_dir / "mnist_m"
    for part, digits in DIGITS.items():
        (home / f"mnist_m_{part}").mkdir(parents=True)
        for i, digit in enumerate(digits):
            Image.fromarray(image(digit)).save(home / f"mnist_m_{part}" / f"{i:08}.png")
        listed = "".join(f"{i:08}.png {digit}\n" for i, digit in enumerate(digits))
        (home / f"mnist_m_{part}_labels.txt").write_text(listed)
    return data_dir


def save_npz(data_dir: Path, **changed: np.ndarray) -> Path:
    (data_dir / "mnist_m").mkdir(parents=True)
    arrays = {f"x_{part}": np.stack([image(d) for d in digits]) for part, digits in DIGITS.items()}
    arrays |= {f"y_{part}": np.array(digits) for part, digits in DIGITS.items()}
    np.savez(data_dir / "mnist_m" / "mnist_m.npz", **{**arrays, **changed})
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return MnistM(OfficialOptions(**options)).load(data_dir, np.random.default_rng(0))


def test_the_authors_images_give_the_same_data_as_arrays(tmp_path):
    images, arrays = load(save_images(tmp_path / "a")), load(save_npz(tmp_path / "b"))
    assert images.fingerprint == arrays.fingerprint
    assert images.x.shape == (4, 3, 32, 32)
    assert images.x[0, :, 5, 6].tolist() == [4, 24, 44]
    assert images.y.tolist() == [4, 0, 9, 7]


def test_missing_data_are_reported_with_their_folder(tmp_path):
    assert not MnistM(OfficialOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(word in str(refusal.value) for word in (str(tmp_path / "mnist_m"), "mnist_m_train_labels.txt"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("00000000.png\n", "each line must have a file and a label"),
        ("", "each line must have a file and a label"),
        ("00000000.png 10\n", "a label has values other than the whole numbers 0 to 9"),
        ("other.png 1\n", "other.png is not a readable image"),
        ("small.png 1\n", "small.png has 28 x 28 pixels, not 32 x 32"),
    ],
)
def test_a_damaged_list_of_labels_is_named(tmp_path, text, words):
    home = save_images(tmp_path) / "mnist_m"
    Image.new("RGB", (28, 28)).save(home / "mnist_m_train" / "small.png")
    (home / "mnist_m_train_labels.txt").write_text(text)
    with pytest.raises(DataUnavailable, match=rf"mnist_m_train_labels\.txt: {words}.*again"):
        load(tmp_path)


def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path):
    with pytest.raises(DataUnavailable, match=r"x_train has shape \[3, 28, 28, 3\].*Expected: x_train"):
        load(save_npz(tmp_path, x_train=np.zeros((3, 28, 28, 3), np.uint8)))
