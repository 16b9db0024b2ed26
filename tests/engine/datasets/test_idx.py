"""MNIST and Fashion-MNIST, on four tiny files in the official format."""

import gzip
import hashlib
import io
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import idx
from engine.datasets.idx import IdxFiles
from engine.datasets.official import OfficialOptions

NAMES = tuple(str(digit) for digit in range(10))


def tiny_files() -> dict[str, bytes]:
    """Three training images of constant 0, 1, 2 and two test images of constant 3, 4; the pixel is the label."""
    files = {}
    for part, values in (("train", (0, 1, 2)), ("t10k", (3, 4))):
        pixels = np.repeat(np.array(values, np.uint8), 28 * 28).tobytes()
        files[f"{part}-images-idx3-ubyte"] = bytes(idx.IMAGES_HEADER) + pixels
        files[f"{part}-labels-idx1-ubyte"] = bytes(idx.LABELS_HEADER) + bytes(values)
    return files


@pytest.fixture
def source() -> IdxFiles:
    return IdxFiles("MNIST", {name: hashlib.md5(content).hexdigest() for name, content in tiny_files().items()})


@pytest.fixture
def data_dir(tmp_path: Path, source: IdxFiles) -> Path:
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    for name, content in tiny_files().items():
        source.path(name, tmp_path).write_bytes(content)
    return tmp_path


@pytest.fixture
def mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx, "_mirrors", lambda name: ["https://one.invalid/", "https://two.invalid/"])


class Response(io.BytesIO):
    @property
    def length(self) -> int:
        return len(self.getvalue())


def test_all_images_are_the_training_images_then_the_test_images(source, data_dir):
    pool = source.load(data_dir, OfficialOptions(), NAMES)
    assert pool.x.shape == (5, 1, 28, 28)
    assert pool.x[:, 0, 0, 0].tolist() == pool.y.tolist() == [0, 1, 2, 3, 4]
    assert pool.scale == 1 / 255
    assert pool.common_test is None


def test_the_common_test_set_is_the_official_test_set(source, data_dir):
    pool = source.load(data_dir, OfficialOptions(pool="train", common_test=True), NAMES)
    assert pool.y.tolist() == [0, 1, 2]
    assert pool.common_test[0].shape == (2, 1, 28, 28)
    assert pool.common_test[1].tolist() == [3, 4]


def test_a_common_test_set_needs_the_training_pool():
    with pytest.raises(ValidationError, match="pool=train"):
        OfficialOptions(common_test=True)


def test_images_are_standardized_over_the_training_images(source, data_dir):
    pool = source.load(data_dir, OfficialOptions(pool="train", standardize=True), NAMES)
    assert pool.scale == 1
    assert pool.x.mean() == pytest.approx(0, abs=1e-6)
    assert pool.x.std() == pytest.approx(1, abs=1e-6)


def test_compressed_files_are_read(source, data_dir):
    for path in (data_dir / "MNIST" / "raw").iterdir():
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert source.present(data_dir)
    assert source.load(data_dir, OfficialOptions(), NAMES).y.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:-1] + b"!", lambda _: b""])
def test_a_damaged_file_is_named(source, data_dir, damage):
    path = source.path("t10k-images-idx3-ubyte", data_dir)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataUnavailable, match="t10k-images-idx3-ubyte is corrupt"):
        source.load(data_dir, OfficialOptions(), NAMES)


def test_a_truncated_compressed_file_is_named(source, data_dir):
    path = source.path("train-images-idx3-ubyte", data_dir)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
    path.unlink()
    with pytest.raises(DataUnavailable, match=r"train-images-idx3-ubyte\.gz"):
        source.load(data_dir, OfficialOptions(), NAMES)


def test_offline_the_message_names_the_files_and_their_folder(source, tmp_path, mirrors, monkeypatch):
    def offline(url, timeout):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    with pytest.raises(DataUnavailable) as refusal:
        source.load(tmp_path, OfficialOptions(), NAMES)
    assert all(word in str(refusal.value) for word in (*source.md5, str(tmp_path / "MNIST" / "raw"), "DATA_DIR"))
    assert not source.present(tmp_path)


def test_a_download_tries_mirrors_verifies_files_and_reports_progress(source, tmp_path, mirrors, monkeypatch):
    def serve(url, timeout):
        name = url.rpartition("/")[2].removesuffix(".gz")
        return Response(gzip.compress(b"wrong" if "one" in url else tiny_files()[name]))

    monkeypatch.setattr(urllib.request, "urlopen", serve)
    seen: list[tuple[str, float]] = []
    pool = source.load(tmp_path, OfficialOptions(), NAMES, lambda text, done: seen.append((text, done)))
    assert pool.y.tolist() == [0, 1, 2, 3, 4]
    assert seen[-1] == ("Downloading t10k-labels-idx1-ubyte", 1.0)
    assert source.present(tmp_path)
    assert {path.name for path in (tmp_path / "MNIST" / "raw").iterdir()} == set(source.md5)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_torchvision_has_the_urls_of_the_files(name, tmp_path):
    entry = DATASETS.get(name)
    assert not entry.make(entry.options()).present(tmp_path)
    assert idx._mirrors({"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}[name])
