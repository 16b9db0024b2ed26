"""Measures of heterogeneity, with known values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.partitioners import measures
from engine.partitioners.measures import label_entropy, mean_js_distance

COUNTS = arrays(np.int64, st.tuples(st.integers(2, 6), st.integers(2, 5)), elements=st.integers(0, 50))


def test_entropy_of_one_two_four_and_no_classes():
    assert label_entropy(np.array([[9, 0, 0, 0], [4, 4, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])).tolist() == [0, 1, 2, 0]


def test_equal_distributions_have_distance_zero_for_any_sizes():
    assert mean_js_distance(np.array([[1, 2], [10, 20], [100, 200]])) == pytest.approx(0, abs=1e-7)


def test_disjoint_distributions_have_distance_one():
    assert mean_js_distance(np.array([[5, 0, 0], [0, 7, 0], [0, 0, 9]])) == pytest.approx(1)


def test_half_overlapping_distributions_have_a_known_distance():
    # m = (1/4, 1/2, 1/4): H(m) = 1.5, H(p) = H(q) = 1
    assert mean_js_distance(np.array([[1, 1, 0], [0, 1, 1]])) == pytest.approx(np.sqrt(0.5))


def test_a_single_client_has_distance_zero():
    assert mean_js_distance(np.array([[1, 2, 3]])) == 0


def test_clients_with_equal_distributions_are_counted_together():
    counts = np.array([[9, 0, 0], [0, 9, 0], [1, 1, 0]])[np.arange(9000) % 3]
    apart, half = 1, np.sqrt(1.5 - np.log2(3) * 0.75)  # H(3/4, 1/4) - 1/2
    unequal = 3000**2 * (apart + 2 * half)
    assert mean_js_distance(counts) == pytest.approx(unequal / (9000 * 8999 / 2))


def test_the_distance_of_many_different_clients_is_estimated_always_in_the_same_way(monkeypatch):
    counts = np.random.default_rng(0).integers(0, 50, (300, 4)) ** 2
    exact = mean_js_distance(counts)
    monkeypatch.setattr(measures, "MAX_DISTINCT", 100)
    monkeypatch.setattr(measures, "_BLOCK", 100_000)
    estimate = mean_js_distance(counts)
    assert estimate == pytest.approx(exact, abs=0.003) and estimate != exact
    assert mean_js_distance(counts) == estimate


def test_the_work_for_the_distance_of_many_different_clients_is_bounded(monkeypatch):
    seen = []
    monkeypatch.setattr(measures, "_entropy", lambda p: seen.append(np.size(p)) or np.zeros(p.shape[:-1]))
    mean_js_distance(np.random.default_rng(0).integers(0, 50, (5000, 4)))
    assert sum(seen) < 2 * 4 * measures.NUM_PAIRS  # all pairs: 50 million


@given(COUNTS)
def test_measures_stay_in_their_range(counts):
    entropy = label_entropy(counts)
    assert (entropy >= 0).all()
    assert (entropy <= np.log2(counts.shape[1]) + 1e-12).all()
    assert 0 <= mean_js_distance(counts) <= 1 + 1e-12


@given(COUNTS, st.randoms(use_true_random=False))
def test_the_order_of_clients_does_not_matter(counts, random):
    order = list(range(len(counts)))
    random.shuffle(order)
    assert mean_js_distance(counts[order]) == pytest.approx(mean_js_distance(counts))
