"""Confidence intervals: known values and independent computations."""

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from app.statistics.intervals import Interval, interval_over_clients, t_interval


def test_the_interval_of_three_values_matches_a_computation_by_hand() -> None:
    found = t_interval(np.array([1.0, 2.0, 3.0]))  # s = 1, t_{0.975, 2} = 4.302653
    half = 4.302653 / np.sqrt(3)
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((2, 2 - half, 2 + half, 3))


def test_the_factor_depends_on_the_degrees_of_freedom() -> None:
    halves = {n: t_interval(np.array([-1.0, 1.0] * (n // 2))).high for n in (2, 10)}
    assert halves[2] == pytest.approx(12.7062 * np.sqrt(2) / np.sqrt(2), rel=1e-4)
    assert halves[10] == pytest.approx(2.2622 * np.sqrt(10 / 9) / np.sqrt(10), rel=1e-4)


def test_one_value_has_no_interval() -> None:
    assert t_interval(np.array([0.3])) == Interval(0.3, -np.inf, np.inf, 1)
    assert t_interval(np.array([])).n == 0


def test_the_interval_excludes_zero_exactly_if_the_paired_t_test_does() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = rng.normal([[0.02, 0.0]], 0.01, (4, 2))
        p = ttest_rel(values[:, 0], values[:, 1]).pvalue
        gap = t_interval(values[:, 0] - values[:, 1])
        assert (gap.low > 0 or gap.high < 0) == (p < 0.05)


def test_with_one_training_the_interval_over_clients_is_the_t_interval() -> None:
    gaps = np.array([0.1, 0.3, -0.1, 0.5])
    assert interval_over_clients([gaps]) == t_interval(gaps)


def test_with_two_trainings_it_uses_welchs_degrees_of_freedom() -> None:
    a, b = np.array([1.0, 2.0, 3.5]), np.array([0.0, 4.0, 4.5, 1.0])
    found, welch = interval_over_clients([a, b]), ttest_ind(a, -b, equal_var=False).confidence_interval()
    assert (2 * found.low, 2 * found.high) == pytest.approx((welch.low, welch.high))  # of the sum of both means
    assert found.n == 7


def test_one_client_has_no_interval_over_clients() -> None:
    assert interval_over_clients([np.array([0.2])]).high == np.inf
    assert interval_over_clients([]).n == 0
