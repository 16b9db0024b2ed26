"""USPS, on a few lines in LIBSVM's format, and as arrays."""

import bz2
import hashlib
import io
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import DataUnavailable
from engine.datasets import Pool, usps
from engine.datasets.official import OfficialOptions
from engine.datasets.usps import Usps

VALUES = {"train": (-1.0, 0.0, 1.0), "test": (0.5,)}  # all pixels of each image
DIGITS = {"train": (0, 5, 9), "test": (3,)}


def packed(part: str) -> bytes:
    lines = [
        f"{digit + 1} " + " ".join(f"{i}:{value:.6f}" for i in range(1, 257))
        for digit, value in zip(DIGITS[part], VALUES[part], strict=True)
    ]
    return bz2.compress("\n".join(lines).encode())


@pytest.fixture(autouse=True)
def checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the tiny files instead of torchvision's."""
    files = {p: (f"https://one.invalid/{n}", n, hashlib.md5(packed(p)).hexdigest()) for p, n in usps.FILES.items()}
    monkeypatch.setattr(usps, "_official", lambda: files)


def save_official(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in usps.FILES.items():
        (folder / name).write_bytes(packed(part))


def save_npz(data_dir: Path, **changed: np.ndarray) -> Path:
    (data_dir / "usps").mkdir(parents=True)
    arrays = {
        "x_train": np.full((3, 16, 16), 7, np.uint8),
        "y_train": np.array(DIGITS["train"]),
        "x_test": np.full((1, 16, 16), 8, np.uint8),
        "y_test": np.array(DIGITS["test"]),
    }
    np.savez(data_dir / "usps" / "usps.npz", **{**arrays, **changed})
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return Usps(OfficialOptions(**options)).load(data_dir, np.random.default_rng(0))


@pytest.mark.parametrize("folder", ["usps", "."])
def test_the_official_files_are_read_as_torchvision_does(tmp_path, folder):
    save_official(tmp_path / folder)
    pool = load(tmp_path)
    assert pool.x.shape == (4, 1, 16, 16) and pool.x.dtype == np.uint8
    assert pool.x[:, 0, 3, 5].tolist() == [0, 127, 255, 191]  # rounded down
    assert pool.y.tolist() == [0, 5, 9, 3]
    assert pool.scale == 1 / 255


def test_arrays_are_read_where_the_official_files_are_missing(tmp_path):
    save_npz(tmp_path)
    assert Usps(OfficialOptions()).present(tmp_path)
    assert load(tmp_path).x[:, 0, 0, 0].tolist() == [7, 7, 7, 8]
    save_official(tmp_path / "usps")
    assert load(tmp_path).x[2, 0, 0, 0] == 255


def test_test_images_may_be_left_for_a_common_test_set(tmp_path):
    pool = load(save_npz(tmp_path), pool="train", common_test=True)
    assert pool.y.tolist() == [0, 5, 9]
    assert pool.common_test[1].tolist() == [3]


def test_a_file_with_another_checksum_is_refused(tmp_path):
    save_official(tmp_path / "usps")
    (tmp_path / "usps" / "usps.t.bz2").write_bytes(b"BZh")
    with pytest.raises(DataUnavailable, match=r"usps\.t\.bz2 is corrupt or not the official file .*delete it"):
        load(tmp_path)


def test_missing_files_are_downloaded_and_kept(tmp_path, monkeypatch):
    class Response(io.BytesIO):
        @property
        def length(self) -> int:
            return len(self.getvalue())

    def served(url: str, timeout: float) -> Response:
        return Response(packed("test" if url.endswith("usps.t.bz2") else "train"))

    monkeypatch.setattr(urllib.request, "urlopen", served)
    assert not Usps(OfficialOptions()).present(tmp_path)
    assert load(tmp_path).y.tolist() == [0, 5, 9, 3]
    assert (tmp_path / "usps" / "usps.bz2").read_bytes() == packed("train")
    assert Usps(OfficialOptions()).present(tmp_path)


def test_a_failed_download_says_where_to_put_the_files(tmp_path, monkeypatch):
    def offline(url, timeout):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(word in str(refusal.value) for word in (f"there is no {tmp_path / 'usps' / 'usps.bz2'}", "usps.npz"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_train": np.zeros((3, 28, 28), np.uint8)}, r"x_train has shape \[3, 28, 28\], must be \[n, 16, 16\]"),
        ({"x_train": np.zeros((3, 16, 16))}, "x_train has dtype float64, not uint8"),
        ({"y_test": np.array([10])}, "y_test has values other than the whole numbers 0 to 9"),
    ],
)
def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path, changed, words):
    with pytest.raises(DataUnavailable, match=rf"usps\.npz: {words}.*Expected: x_train"):
        load(save_npz(tmp_path, **changed))
