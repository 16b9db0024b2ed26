"""PACS, on one or two images per class and domain in the authors' layout, and as arrays."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.pacs import CLASS_NAMES, DOMAINS, Pacs, PacsOptions


def level(domain: str, y: int) -> int:
    return 10 + 50 * DOMAINS.index(domain) + 5 * y


def save_images(data_dir: Path, folder: str = "PACS") -> Path:
    """One image per class, of one color; photos have two."""
    for domain in DOMAINS:
        for y, name in enumerate(CLASS_NAMES):
            home = data_dir / folder / domain / name
            home.mkdir(parents=True)
            for i in range(1 + (domain == "photo")):
                Image.new("RGB", (40, 40), (level(domain, y), 0, 255)).save(home / f"pic_{i}.png")
    return data_dir


def save_npz(data_dir: Path, **changed: np.ndarray) -> Path:
    (data_dir / "pacs").mkdir(parents=True)
    arrays: dict[str, np.ndarray] = {"classes": np.array(CLASS_NAMES)}
    for domain in DOMAINS:
        y = np.repeat(np.arange(7), 1 + (domain == "photo"))
        x = np.zeros((len(y), 32, 32, 3), np.uint8)
        x[..., 0], x[..., 2] = np.array([level(domain, c) for c in y])[:, None, None], 255
        arrays |= {f"x_{domain}": x, f"y_{domain}": y}
    np.savez(data_dir / "pacs" / "pacs32.npz", **{**arrays, **changed})
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return Pacs(PacsOptions(**options)).load(data_dir, np.random.default_rng(0))


@pytest.mark.parametrize("folder", ["PACS", "pacs"])
def test_the_authors_images_give_the_same_data_as_arrays(tmp_path, folder):
    images, arrays = load(save_images(tmp_path / "a", folder)), load(save_npz(tmp_path / "b"))
    assert images.fingerprint == arrays.fingerprint
    assert images.x.shape == (35, 3, 32, 32)
    assert images.x[0, :, 0, 0].tolist() == [10, 0, 255]


def test_clients_are_domains_with_all_their_images(tmp_path):
    pool = load(save_images(tmp_path))
    assert np.bincount(pool.client).tolist() == [7, 7, 14, 7]
    assert pool.y[pool.client == 3].tolist() == list(range(7))
    assert (pool.x[:, 0, 0, 0] == 10 + 50 * pool.client + 5 * pool.y).all()


def test_a_number_of_samples_limits_each_domain(tmp_path):
    assert np.bincount(load(save_npz(tmp_path), samples_per_domain=9).client).tolist() == [7, 7, 9, 7]
    assert np.bincount(load(save_images(tmp_path), samples_per_domain=3).client).tolist() == [3] * 4


def test_images_are_resized_and_large_ones_need_the_authors_files(tmp_path):
    assert load(save_npz(tmp_path), size=8).x.shape == (35, 3, 8, 8)
    assert not Pacs(PacsOptions(size=36)).present(tmp_path)
    with pytest.raises(DataUnavailable, match=r"there is no .*PACS.* for size=36; .*use size=32 or less"):
        load(tmp_path, size=36)
    assert load(save_images(tmp_path), size=36).x.shape == (35, 3, 36, 36)


def test_missing_data_are_reported_with_their_folder(tmp_path):
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(str(tmp_path / folder) in str(refusal.value) for folder in ("PACS", "pacs/pacs32.npz"))


def test_an_empty_class_is_refused(tmp_path):
    (save_images(tmp_path) / "PACS" / "sketch" / "house" / "pic_0.png").unlink()
    with pytest.raises(DataUnavailable, match="house has no images"):
        load(tmp_path)


def test_a_damaged_image_is_named(tmp_path):
    (save_images(tmp_path) / "PACS" / "photo" / "dog" / "pic_1.png").write_bytes(b"no image")
    with pytest.raises(DataUnavailable, match=r"pic_1\.png is not a readable image"):
        load(tmp_path)


def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path):
    with pytest.raises(DataUnavailable, match=r"y_photo has shape \[2\] for 14 samples.*Expected: x_<domain>"):
        load(save_npz(tmp_path, y_photo=np.array([0, 1])))


def test_few_samples_need_little_memory():
    few = Pacs(PacsOptions(samples_per_domain=8, size=224)).memory(Path())
    assert few < Pacs(PacsOptions(size=224)).memory(Path()) / 20
