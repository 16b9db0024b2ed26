"""CIFAR-10 and CIFAR-100, on a tiny NPZ file and a tiny folder in torchvision's format."""

import hashlib
import importlib
import io
import pickle
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import DataUnavailable
from engine.datasets.cifar import CifarFiles
from engine.datasets.cifar10 import Cifar10
from engine.datasets.cifar100 import CLASS_NAMES, Cifar100
from engine.datasets.official import OfficialOptions

FILES = CifarFiles("TinyCifar", folder="tiny", archive="tiny.tar.gz", npz="tiny.npz", files=("a", "b", "test", "meta"))
NAMES = ("cat", "dog", "ship")


def colors(labels: list[int]) -> np.ndarray:
    """[n, 3, 32, 32]: channel c of an image with label y is 10 y + c everywhere; the upper right corner is 99."""
    planes = np.array([[10 * y + c for c in range(3)] for y in labels], np.uint8)
    images = np.repeat(planes, 32 * 32, axis=1).reshape(-1, 3, 32, 32)
    images[:, :, 0, 31] = 99
    return images


def official_files() -> dict[str, bytes]:
    labels = {"a": [0, 1], "b": [2], "test": [1, 2]}
    batches = {name: {"data": colors(y).reshape(-1, 3072), "labels": y} for name, y in labels.items()}
    return {name: pickle.dumps(batch) for name, batch in {**batches, "meta": {"names": list(NAMES)}}.items()}


def archive_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"tiny/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The archive of the tiny set, registered with torchvision during a test."""
    import torchvision  # here, since it takes a second

    files = official_files()
    packed = archive_of(files)
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}

    class TinyCifar(torchvision.datasets.CIFAR10):
        base_folder, url, tgz_md5 = "tiny", "https://tiny.invalid/tiny.tar.gz", hashlib.md5(packed).hexdigest()
        train_list, test_list = [["a", md5["a"]], ["b", md5["b"]]], [["test", md5["test"]]]
        meta = {"filename": "meta", "key": "names", "md5": md5["meta"]}

    monkeypatch.setattr(torchvision.datasets, "TinyCifar", TinyCifar, raising=False)
    return packed


@pytest.fixture
def unpacked(archive: bytes, tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    for name, content in official_files().items():
        (tmp_path / "tiny" / name).write_bytes(content)
    return tmp_path


def save_npz(folder: Path, name: str = "tiny.npz", **changed: np.ndarray) -> Path:
    arrays = {
        "x_train": colors([0, 1, 2]).transpose(0, 2, 3, 1),
        "y_train": np.array([0, 1, 2], np.uint8),
        "x_test": colors([1, 2]).transpose(0, 2, 3, 1),
        "y_test": np.array([1, 2], np.uint8),
    }
    np.savez(folder / name, **{**arrays, **changed})
    return folder


def test_an_image_has_channels_then_rows_then_columns(tmp_path):
    pool = FILES.load(save_npz(tmp_path), OfficialOptions(), NAMES)
    assert pool.x.dtype == np.uint8
    assert (pool.x == colors([0, 1, 2, 1, 2])).all()
    assert pool.y.tolist() == [0, 1, 2, 1, 2]
    assert (pool.scale, pool.num_classes, pool.class_names) == (1 / 255, 3, NAMES)


@pytest.mark.slow
def test_the_official_folder_gives_the_same_data_as_the_npz(unpacked, tmp_path):
    official = FILES.load(unpacked, OfficialOptions(), NAMES)
    (tmp_path / "other").mkdir()
    assert FILES.load(save_npz(tmp_path / "other"), OfficialOptions(), NAMES).fingerprint == official.fingerprint


def test_the_training_pool_leaves_the_test_images_as_a_common_test_set(tmp_path):
    pool = FILES.load(save_npz(tmp_path), OfficialOptions(pool="train", common_test=True), NAMES)
    assert pool.y.tolist() == [0, 1, 2]
    assert pool.common_test[1].tolist() == [1, 2]
    assert (pool.common_test[0] == colors([1, 2])).all()


def test_images_are_standardized_over_all_training_pixels(tmp_path):
    pool = FILES.load(save_npz(tmp_path), OfficialOptions(pool="train", standardize=True), NAMES)
    assert pool.x.mean() == pytest.approx(0, abs=1e-5)
    assert pool.x.std() == pytest.approx(1, abs=1e-5)


def test_an_archive_in_the_folder_is_unpacked(archive, tmp_path):
    (tmp_path / "tiny.tar.gz").write_bytes(archive)
    assert FILES.present(tmp_path)
    assert FILES.load(tmp_path, OfficialOptions(), NAMES).y.tolist() == [0, 1, 2, 1, 2]
    assert {path.name for path in (tmp_path / "tiny").iterdir()} == set(FILES.files)


def test_a_damaged_archive_is_refused_before_it_is_unpacked(archive, tmp_path):
    (tmp_path / "tiny.tar.gz").write_bytes(archive[:-1])
    with pytest.raises(DataUnavailable, match=r"tiny\.tar\.gz is corrupt or not .*; delete it"):
        FILES.load(tmp_path, OfficialOptions(), NAMES)
    assert not (tmp_path / "tiny").exists()


class Trap:
    """A pickle that creates a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["b", "test", "meta"])
def test_a_pickle_of_unknown_content_is_named_and_never_opened(unpacked, name):
    (unpacked / "tiny" / name).write_bytes(pickle.dumps(Trap(unpacked / "opened")))
    with pytest.raises(DataUnavailable, match=rf"tiny: {name} is corrupt or not the official file; delete it"):
        FILES.load(unpacked, OfficialOptions(), NAMES)
    assert not (unpacked / "opened").exists()


def test_a_download_is_checked_unpacked_and_shows_its_progress(archive, tmp_path, monkeypatch):
    class Response(io.BytesIO):
        length = len(archive)

    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: Response(archive))
    seen: list[tuple[str, float]] = []
    pool = FILES.load(tmp_path, OfficialOptions(), NAMES, lambda text, done: seen.append((text, done)))
    assert pool.y.tolist() == [0, 1, 2, 1, 2]
    assert seen[-1] == ("Downloading tiny.tar.gz", 1.0)
    assert FILES.present(tmp_path)


def test_a_wrong_download_is_refused_and_deleted(archive, tmp_path, monkeypatch):
    class Response(io.BytesIO):
        length = 5

    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: Response(b"wrong"))
    with pytest.raises(DataUnavailable, match=r"https://tiny\.invalid/tiny\.tar\.gz is corrupt or not .*; try again"):
        FILES.load(tmp_path, OfficialOptions(), NAMES)
    assert not FILES.present(tmp_path)


def test_offline_the_message_names_the_files_and_their_folder(archive, tmp_path, monkeypatch):
    def offline(url, timeout):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    with pytest.raises(DataUnavailable) as refusal:
        FILES.load(tmp_path, OfficialOptions(), NAMES)
    assert all(word in str(refusal.value) for word in ("tiny.tar.gz", "tiny.npz", "x_train", str(tmp_path), "no route"))
    assert not FILES.present(tmp_path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"x_test": np.zeros((2, 3, 32, 32), np.uint8)},
            r"x_test has shape \[2, 3, 32, 32\], must be \[n, 32, 32, 3\]",
        ),
        ({"x_train": np.zeros((3, 32, 32, 3))}, "x_train has dtype float64"),
        ({"x_train": np.zeros((0, 32, 32, 3), np.uint8)}, "x_train has shape"),
        ({"y_train": np.array([0, 1, 3])}, "y_train has values other than the whole numbers 0 to 2"),
        ({"y_train": np.array([0, 1])}, r"y_train has shape \[2\] for 3 samples"),
        ({"y_test": np.array([b"a", None], dtype=object)}, "allow_pickle=False"),
    ],
)
def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path, changed, words):
    with pytest.raises(DataUnavailable, match=rf"tiny\.npz: .*{words}.*Expected: x_train"):
        FILES.load(save_npz(tmp_path, **changed), OfficialOptions(), NAMES)


def test_a_truncated_npz_is_refused(tmp_path):
    path = save_npz(tmp_path) / "tiny.npz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataUnavailable, match=r"tiny\.npz: .*Expected"):
        FILES.load(tmp_path, OfficialOptions(), NAMES)


@pytest.mark.parametrize(
    ("made", "name", "last"), [(Cifar10, "cifar10.npz", "truck"), (Cifar100, "cifar100.npz", "worm")]
)
def test_both_sets_are_read_from_an_npz_with_their_name(made, name, last, tmp_path):
    data = made(OfficialOptions())
    assert not data.present(tmp_path)
    pool = data.load(save_npz(tmp_path, name), np.random.default_rng(0))
    assert data.present(tmp_path)
    assert pool.class_names[-1] == last
    assert pool.x.shape == (5, 3, 32, 32)


def test_cifar100_has_a_hundred_classes_in_official_order():
    assert len(set(CLASS_NAMES)) == 100
    assert list(CLASS_NAMES) == sorted(CLASS_NAMES)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_torchvision_has_the_files_and_urls(name):
    import torchvision

    files = importlib.import_module(f"engine.datasets.{name}").FILES
    official = getattr(torchvision.datasets, files.torchvision_class)
    known = {entry[0] for entry in (*official.train_list, *official.test_list)} | {official.meta["filename"]}
    assert (official.base_folder, official.filename, known) == (files.folder, files.archive, set(files.files))
