"""Measures of heterogeneity, with known values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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
