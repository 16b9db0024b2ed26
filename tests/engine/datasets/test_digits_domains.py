"""Digits of three domains, on tiny stand-ins for MNIST, USPS and MNIST-M whose pixels tell the source."""

import numpy as np
import pytest

from engine.datasets import Pool, digits_domains
from engine.datasets.digits_domains import DigitsDomains, DigitsDomainsOptions
from engine.datasets.domains import at_size, in_color, in_gray
from engine.datasets.official import Part
from engine.partitioners.natural import Natural, NaturalOptions
from tests.engine.datasets.test_mnist_m import save_npz

MNIST, USPS, MNIST_M = (24, 8), (6, 4), (9, 5)  # training and test images


def part(size: int, shape: tuple[int, ...], first: int) -> Part:
    """Image i has the gray level first + i and the label i mod 10."""
    levels = np.arange(first, first + size, dtype=np.uint8)
    return Part(np.broadcast_to(levels[:, None, None, None], (size, *shape)).copy(), np.arange(size) % 10)


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = part(MNIST[0], (1, 28, 28), 0), part(MNIST[1], (1, 28, 28), 100)
    letters = part(USPS[0], (1, 16, 16), 200), part(USPS[1], (1, 16, 16), 220)
    blended = part(MNIST_M[0], (3, 32, 32), 0), part(MNIST_M[1], (3, 32, 32), 100)  # the levels of their digits
    monkeypatch.setattr(type(digits_domains.mnist.FILES), "parts", lambda self, data_dir, progress: plain)
    monkeypatch.setattr(digits_domains.usps, "parts", lambda data_dir, progress: letters)
    monkeypatch.setattr(digits_domains.mnist_m, "parts", lambda data_dir, progress: blended)


def load(seed: int = 0, **options) -> Pool:
    return DigitsDomains(DigitsDomainsOptions(**options)).load("unused", np.random.default_rng(seed))


def levels(pool: Pool, domain: int) -> set[int]:
    return set(pool.x[pool.client == domain][:, 0, 0, 0].tolist())


def test_domains_have_one_size_and_by_default_as_many_samples_as_the_smallest():
    pool = load()
    assert pool.x.shape == (30, 3, 28, 28) and pool.x.dtype == np.uint8
    assert np.bincount(pool.client).tolist() == [10, 10, 10]
    assert levels(pool, 1) == {*range(200, 206), *range(220, 224)}
    assert pool.notes == ("the domains are 0 MNIST, 1 USPS, 2 MNIST-M",)


def test_labels_stay_with_their_images():
    pool = load(samples_per_domain=1000)
    assert (pool.y == pool.x[:, 0, 0, 0] % 100 % 20 % 10).all()  # of training (from 0) and test (from 100, 220)


def test_no_digit_of_mnist_is_drawn_for_both_domains():
    pool = load()
    assert not levels(pool, 0) & levels(pool, 2)


def test_with_more_samples_than_exist_a_note_says_that_domains_share_digits():
    pool = load(samples_per_domain=1000)
    assert np.bincount(pool.client).tolist() == [32, 10, 14]
    assert levels(pool, 2) < levels(pool, 0)
    assert "some digits are in both domains" in pool.notes[1]


def test_a_number_of_samples_limits_each_domain_and_all_seeds_share_them():
    pool = load(samples_per_domain=12)
    assert np.bincount(pool.client).tolist() == [12, 10, 12]
    assert load(seed=7, samples_per_domain=12).fingerprint == pool.fingerprint


def test_images_may_be_gray_small_and_standardized():
    pool = load(color=False, size=16, standardize=True)
    assert pool.x.shape == (30, 1, 16, 16) and pool.scale == 1.0
    assert abs(pool.x.mean()) < 1e-4 and pool.x.std() == pytest.approx(1, abs=1e-4)


def test_a_client_of_the_natural_split_is_a_domain():
    split = Natural(NaturalOptions(test_fraction=0)).split(load(), np.random.default_rng(0))
    assert [len(rows) for rows in split.train] == [10, 10, 10]


def test_missing_data_of_any_domain_make_the_set_absent(tmp_path):
    assert not DigitsDomains(DigitsDomainsOptions()).present(save_npz(tmp_path))


def test_resizing_keeps_channels_and_averages_areas():
    x = np.zeros((1, 2, 4, 4), np.uint8)
    x[0, 1, :2] = 200
    small = at_size(x, 2)
    assert small.shape == (1, 2, 2, 2)
    assert not small[0, 0].any()
    assert (small[0, 1, 0] > 150).all() and (small[0, 1, 1] < 50).all()
    assert at_size(x, 4) is x


def test_gray_and_color_are_converted_by_luminance():
    gray = np.array([10, 250], np.uint8).reshape(2, 1, 1, 1)
    assert in_color(gray)[:, :, 0, 0].tolist() == [[10] * 3, [250] * 3]
    assert in_gray(in_color(gray)).tolist() == gray.tolist()
    color = np.array([255, 0, 100], np.uint8).reshape(1, 3, 1, 1)
    assert in_gray(color).item() == round(0.299 * 255 + 0.114 * 100)
    assert in_color(color) is color and in_gray(gray) is gray
