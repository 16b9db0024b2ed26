"""Office-Caltech-10, on a few histograms in the authors' files and as arrays."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.office_caltech import DOMAINS, OfficeCaltech, OfficeCaltechOptions

LABELS = {"amazon": [0, 9, 3], "caltech": [1, 2], "dslr": [4, 5], "webcam": [6, 7]}


def histograms(domain: str) -> np.ndarray:
    return np.random.default_rng(DOMAINS.index(domain)).integers(0, 9, (len(LABELS[domain]), 800)).astype(np.uint8)


def save_npz(data_dir: Path, **changed: np.ndarray) -> Path:
    (data_dir / "office_caltech").mkdir(parents=True)
    arrays = {f"x_{domain}": histograms(domain) for domain in DOMAINS}
    arrays |= {f"y_{domain}": np.array(labels) for domain, labels in LABELS.items()}
    np.savez(data_dir / "office_caltech" / "office_caltech10_surf.npz", **{**arrays, **changed})
    return data_dir


def save_mat(data_dir: Path, **changed: np.ndarray) -> Path:
    home = data_dir / "office_caltech"
    home.mkdir(parents=True)
    for domain, name in zip(DOMAINS, ("amazon", "Caltech10", "dslr", "webcam"), strict=True):
        arrays = {"fts": histograms(domain).astype(np.float64), "labels": np.array(LABELS[domain])[:, None] + 1.0}
        savemat(home / f"{name}_SURF_L10.mat", {**arrays, **changed})
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return OfficeCaltech(OfficeCaltechOptions(**options)).load(data_dir, np.random.default_rng(0))


def test_the_authors_files_give_the_same_data_as_arrays(tmp_path):
    official, arrays = load(save_mat(tmp_path / "a")), load(save_npz(tmp_path / "b"))
    assert official.fingerprint == arrays.fingerprint
    assert official.x.shape == (9, 800) and official.x.dtype == np.float32
    assert official.y.tolist() == [0, 9, 3, 1, 2, 4, 5, 6, 7]
    assert official.client.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]


def test_features_are_shares_standardized_within_each_domain(tmp_path):
    pool = load(save_npz(tmp_path))
    shares = histograms("amazon") / histograms("amazon").sum(1, keepdims=True)
    deviation = shares.std(0)
    expected = (shares - shares.mean(0)) / np.where(deviation > 0, deviation, 1)
    assert np.allclose(pool.x[:3], expected, atol=1e-4)


def test_features_may_be_shares_or_counts(tmp_path):
    save_npz(tmp_path)
    assert np.allclose(load(tmp_path, features="shares").x.sum(1), 1, atol=1e-5)
    assert (load(tmp_path, features="counts").x[:3] == histograms("amazon")).all()


def test_an_image_without_features_stays_zero(tmp_path):
    empty = histograms("amazon")
    empty[1] = 0
    pool = load(save_npz(tmp_path, x_amazon=empty), features="shares")
    assert not pool.x[1].any() and np.isfinite(pool.x).all()


def test_missing_data_are_reported_with_their_folder(tmp_path):
    assert not OfficeCaltech(OfficeCaltechOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(word in str(refusal.value) for word in (str(tmp_path / "office_caltech"), "amazon_SURF_L10.mat"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_dslr": np.zeros((2, 4096))}, r"x_dslr has shape \[2, 4096\], must be \[n, 800\]"),
        ({"x_dslr": np.full((2, 800), -1)}, "negative"),
        ({"y_dslr": np.array([1, 10])}, "y_dslr has values other than the whole numbers 0 to 9"),
    ],
)
def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path, changed, words):
    with pytest.raises(DataUnavailable, match=rf"surf\.npz: .*{words}.*Expected: x_<domain>"):
        load(save_npz(tmp_path, **changed))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"fts": np.zeros((3, 5))}, r"fts has shape \[3, 5\], must be \[n, 800\]"),
        ({"labels": np.array([1.0, 2.0, 11.0])}, "labels - 1 has values other than"),
        ({"labels": np.array(["a", "b", "c"])}, "labels have dtype"),
    ],
)
def test_an_invalid_file_of_the_authors_is_named(tmp_path, changed, words):
    with pytest.raises(DataUnavailable, match=rf"amazon_SURF_L10\.mat: cannot be read \({words}"):
        load(save_mat(tmp_path, **changed))


@pytest.mark.parametrize("content", [b"", b"no matrices" * 40, None])
def test_a_damaged_file_of_the_authors_is_named(tmp_path, content):
    path = save_mat(tmp_path) / "office_caltech" / "amazon_SURF_L10.mat"
    path.write_bytes(path.read_bytes()[:100] if content is None else content)
    with pytest.raises(DataUnavailable, match=r"amazon_SURF_L10\.mat: cannot be read"):
        load(tmp_path)
