"""Rankings of methods: known cases, the power of a few seeds, and error rates."""

import numpy as np
import pytest

from app.statistics.ranking import rank_methods


def test_an_equal_lead_in_three_blocks_is_significant() -> None:
    found = rank_methods(np.array([[0.50, 0.51], [0.90, 0.91], [0.70, 0.71]]))  # although blocks differ by 40 points
    assert (found.order, found.may_be_best, found.won, found.blocks) == ((1, 0), 1, 3, 3)


@pytest.mark.parametrize("blocks", [1, 2])
def test_one_or_two_blocks_exclude_no_method(blocks: int) -> None:
    found = rank_methods(np.array([[0.9, 0.1]] * blocks))
    assert not found.is_clear and found.won == blocks


def test_the_lowest_cost_is_best() -> None:
    costs = np.array([[5.0, 9.0], [5.1, 9.3], [5.2, 9.1]])
    found = rank_methods(costs, is_higher_better=False)
    assert found.order == (0, 1) and found.is_clear and found.gaps[0].mean == pytest.approx(4.0333, abs=1e-3)


def test_no_method_is_excluded_before_a_worse_one() -> None:
    first, close, noisy = np.full(3, 0.9), np.full(3, 0.85), np.array([1.0, 0.9, 0.5])
    found = rank_methods(np.stack([first, close, noisy], axis=1))
    assert found.gaps[0].is_above_zero and not found.gaps[1].is_above_zero
    assert found.order == (0, 1, 2) and found.tied == (0, 1, 2)


def test_methods_that_may_be_best_are_the_top_of_the_ranking() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.normal(0, rng.uniform(0.1, 3, 6), (4, 6)) + rng.normal(0, 2, 6)
        found = rank_methods(values)
        means = values.mean(axis=0)
        assert max((means[i] for i in found.order[found.may_be_best :]), default=-np.inf) <= min(
            means[i] for i in found.tied
        )


def test_renaming_methods_or_shifting_a_block_changes_nothing() -> None:
    values = np.random.default_rng(3).normal([0, 3, 0.5, 1], 1, (5, 4))
    found, places = rank_methods(values), [2, 0, 3, 1]
    assert tuple(places[i] for i in rank_methods(values[:, places]).order) == found.order
    shifted = rank_methods(values + np.arange(5)[:, None] * 10)
    assert (shifted.order, shifted.may_be_best) == (found.order, found.may_be_best)


def test_a_copy_of_a_method_is_tied_with_it() -> None:
    own = np.array([0.5, 0.7, 0.6])
    found = rank_methods(np.stack([own, own + 1e-8], axis=1))
    assert found.tied == (1, 0) and found.is_level(0.005) and found.won == 0


def test_methods_are_compared_on_common_blocks() -> None:
    nan = np.nan
    found = rank_methods(np.array([[0.9, 0.8, nan], [0.9, 0.8, 0.7], [0.9, 0.8, 0.7]]))
    assert [gap.n for gap in found.gaps] == [3, 2] and found.blocks == 2
    assert found.may_be_best == 3  # two blocks do not separate the third from the first


def test_only_methods_known_to_be_close_are_tied() -> None:
    near = rank_methods(np.array([[0.800, 0.801], [0.701, 0.700], [0.750, 0.7505]]))
    wide = rank_methods(np.array([[0.80, 0.85], [0.75, 0.70], [0.75, 0.76]]))
    assert near.is_level(0.005) and not wide.is_level(0.005) and not wide.is_clear


@pytest.mark.parametrize(("blocks", "methods"), [(3, 2), (10, 2), (3, 5), (10, 5)])
def test_equal_methods_have_a_leader_in_at_most_5_percent_of_cases(blocks: int, methods: int) -> None:
    """1000 comparisons of client accuracies with 45 test samples each; the standard error of 0.05 is 0.007."""
    rng = np.random.default_rng(blocks * methods)
    ease = rng.beta(35, 5, (1000, blocks, 20, 1))
    training = rng.normal(0, 0.008, (1000, blocks, 1, methods))
    accuracies = rng.binomial(45, np.clip(ease + training, 0, 1)) / 45
    led = [rank_methods(values).is_clear for values in accuracies.mean(axis=2)]
    assert np.mean(led) <= 0.05 + 3 * 0.007


def test_a_gap_of_four_points_is_detected_with_five_seeds() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal([0.92, 0.88], 0.01, (500, 5, 2))
    assert np.mean([rank_methods(v).is_clear and rank_methods(v).order[0] == 0 for v in values]) > 0.9


def test_without_methods_no_method_may_be_best() -> None:
    found = rank_methods(np.empty((0, 0)))
    assert found.tied == () and not found.is_clear
