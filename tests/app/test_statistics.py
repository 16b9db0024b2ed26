"""Tests over blocks: published values, an independent computation, and identities.

Demsar. Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 2006, table 6: C4.5, +m, +cf and +m+cf on
14 data sets. The paper ranks +cf before +m+cf on the 13th although both are printed as .975.
"""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, friedmanchisquare, studentized_range, ttest_1samp, wilcoxon

from app.statistics import bayesian
from app.statistics.bayesian import posterior_draws, signed_rank_posterior
from app.statistics.best_of import chance_to_meet, expected_best
from app.statistics.bootstrap import two_way
from app.statistics.chance_floor import chance_floor
from app.statistics.critical_difference import (
    critical_difference,
    groups,
    nemenyi_q,
    range_tail,
    standard_error,
)
from app.statistics.equal_cost import accuracy_at, budgets
from app.statistics.friedman import block_ranks, friedman, iman_davenport, iman_davenport_p, permutation_p
from app.statistics.holm import holm
from app.statistics.hurt import hurt_and_helped, wilson
from app.statistics.intervals import t_interval, t_test_p
from app.statistics.pairs import all_pairs, to_reference
from app.statistics.signed_rank import EXACT_UP_TO, effect, mean_ranks, rank_sums, sign_test_p, signed_rank_p
from app.statistics.verdicts import relation
from engine.metrics import tail_size

TABLE_6 = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
RANKS = block_ranks(TABLE_6)
MAIZE = np.array([6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75.0])  # Darwin's 15 pairs
BLOCKS = st.integers(0, 10_000).map(lambda seed: np.random.default_rng(seed).normal(0, 1, (6, 4)).round(2))


def test_friedman_gives_the_numbers_of_demsar() -> None:
    found = friedman(RANKS)
    assert found.mean_ranks == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=5e-4)
    assert found.chi2 == pytest.approx(9.2786, abs=5e-5)
    F = iman_davenport(found.chi2, 14, 4)
    assert (F, iman_davenport_p(F, 14, 4)) == pytest.approx((3.6863, 0.0198), abs=5e-5)
    assert iman_davenport_p(2.8451, 14, 4) == pytest.approx(0.05, abs=1e-5)


def test_corrected_for_ties_friedman_is_that_of_scipy() -> None:
    found, scipys = friedman(RANKS), friedmanchisquare(*TABLE_6.T)
    assert found.chi2_ties == pytest.approx(10.2283, abs=5e-5)
    assert found.chi2_ties == pytest.approx(scipys.statistic)
    assert iman_davenport(scipys.statistic, 14, 4) == pytest.approx(found.F)


def test_with_ties_the_p_of_F_is_that_of_permutations() -> None:
    rounded = np.random.default_rng(4).normal(0.15 * np.arange(6), 1, (30, 6)).round()
    found = friedman(block_ranks(rounded))
    assert not found.is_permuted and found.p < 0.05  # without the correction 0.054
    assert found.p == pytest.approx(permutation_p(block_ranks(rounded)), abs=0.006)


def test_few_methods_are_tested_by_permutations_and_many_by_F() -> None:
    few, many = friedman(RANKS), friedman(block_ranks(np.random.default_rng(0).normal(0, 1, (10, 5))))
    assert few.is_permuted and few.p == permutation_p(RANKS) and few.p == pytest.approx(0.0167, abs=0.006)
    assert not many.is_permuted and many.p == iman_davenport_p(many.F, 10, 5)


def test_the_permutation_p_is_that_of_all_permutations() -> None:
    ranks = np.array([[1, 2, 3], [1, 2, 3], [1, 3, 2.0]])
    every = np.array(list(product(permutations([1, 2, 3]), repeat=3))).sum(axis=1)
    share = ((every**2).sum(axis=1) >= (ranks.sum(axis=0) ** 2).sum()).mean()
    assert permutation_p(ranks) == pytest.approx(share, abs=0.015)


def test_unanimous_blocks_have_an_infinite_F_and_the_smallest_permutation_p() -> None:
    found = friedman(np.tile([1.0, 2, 3, 4], (9, 1)))
    assert np.inf == found.F and found.p == pytest.approx(1 / 10_001)
    assert iman_davenport_p(found.F, 9, 4) == 0


def test_blocks_without_differences_have_a_p_of_one() -> None:
    found = friedman(np.full((4, 3), 2.0))
    assert (found.chi2, found.chi2_ties, found.p) == pytest.approx((0, 0, 1))


def test_one_block_is_not_tested() -> None:
    assert np.isnan(friedman(np.array([[1.0, 2.0]])).p)


def test_blocks_that_a_method_lacks_are_not_ranked() -> None:
    assert block_ranks(np.array([[0.9, np.nan], [0.5, 0.6]])).tolist() == [[2, 1]]
    assert block_ranks(np.array([[3.0, 1.0]]), is_higher_better=False).tolist() == [[2, 1]]


def test_nemenyi_gives_the_critical_differences_of_demsar() -> None:
    assert (nemenyi_q(4), critical_difference(4, 14)) == pytest.approx((2.5690, 1.2536), abs=5e-5)
    assert (nemenyi_q(4, 0.10), critical_difference(4, 14, 0.10)) == pytest.approx((2.2913, 1.1181), abs=5e-5)
    of_k = [1.960, 2.344, 2.569, 2.728, 2.850, 2.948, 3.031, 3.102, 3.164]
    assert [nemenyi_q(k) for k in range(2, 11)] == pytest.approx(of_k, abs=5e-4)


def test_the_range_of_normals_is_that_of_scipy() -> None:
    for k, width in product((2, 5, 28), (0.5, 2.0, 4.5)):
        assert range_tail(width, k) == pytest.approx(studentized_range.sf(width, k, np.inf), abs=1e-7)


def test_at_5_percent_nothing_differs_and_at_10_percent_two_beat_c45() -> None:
    ranks = sorted(friedman(RANKS).mean_ranks)
    assert groups(ranks, critical_difference(4, 14)) == [(0, 3)]
    assert groups(ranks, critical_difference(4, 14, 0.10)) == [(0, 2), (2, 3)]


def test_the_standard_error_and_holms_correction_are_those_of_demsar() -> None:
    assert standard_error(4, 14) == pytest.approx(0.48795, abs=5e-6)
    assert holm(np.array([0.01917, 0.6084, 0.01572])) == pytest.approx([0.0472, 0.6084, 0.0472], abs=5e-5)


def test_zeros_are_left_out_and_ties_are_counted() -> None:
    """Demsar splits the ranks of zeros: T = 12 and R+ = 93. scipy's exact test ignores ties: 0.009277."""
    gains = (TABLE_6[:, 1] - TABLE_6[:, 0]).round(6)
    assert wilcoxon(gains, zero_method="zsplit", method="asymptotic").statistic == 12
    assert rank_sums(gains) == (71.5, 6.5)
    assert signed_rank_p(gains) == pytest.approx(0.007324, abs=5e-7)


def test_darwins_maize_has_the_published_p() -> None:
    assert min(rank_sums(MAIZE)) == 24
    assert signed_rank_p(MAIZE) == pytest.approx(0.041260, abs=5e-7)
    assert effect(MAIZE) == pytest.approx((96 - 24) / 120)


@pytest.mark.parametrize("n", [7, 20, 50, 60])
def test_without_ties_the_p_value_matches_scipy(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.2, 1, n)
    method = "exact" if n <= EXACT_UP_TO else "asymptotic"
    expected = wilcoxon(differences, method=method, correction=False).pvalue
    assert signed_rank_p(differences) == pytest.approx(expected)


def test_with_ties_every_assignment_of_signs_is_counted() -> None:
    differences = np.array([1, 1, -1, 2, 2, 3, -2.0])
    ranks = np.array([2, 2, 2, 5, 5, 7, 5])
    signs = np.array(list(product([0, 1], repeat=7)))
    sums, positive = signs @ ranks, ranks[differences > 0].sum()
    expected = 2 * min((sums <= positive).mean(), (sums >= positive).mean())
    assert signed_rank_p(differences) == pytest.approx(expected)


def test_equal_gains_and_losses_have_a_p_value_of_one() -> None:
    assert signed_rank_p(np.array([1, -1, 2, -2, 3, -3.0])) == 1.0


def test_differences_of_zero_show_nothing() -> None:
    assert signed_rank_p(np.zeros(9)) == 1 and np.isnan(effect(np.zeros(9))) and rank_sums(np.zeros(9)) == (0, 0)


def test_values_within_single_precision_share_a_rank() -> None:
    assert mean_ranks(np.array([0.7, float(np.float32(0.7)), 0.1])).tolist() == [2.5, 2.5, 1]


def test_holm_multiplies_by_the_number_of_tests_that_are_left() -> None:
    assert holm(np.array([0.607, 0.016, 0.019])) == pytest.approx([0.607, 0.048, 0.048])
    assert holm(np.array([0.4, np.nan, 0.6])) == pytest.approx([0.8, np.nan, 0.8], nan_ok=True)
    assert holm(np.array([])).tolist() == []


@given(st.floats(0, 1))
def test_holm_of_one_p_is_that_p(p: float) -> None:
    assert holm(np.array([p])).tolist() == [p]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
@pytest.mark.slow
def test_holm_keeps_the_order_and_only_raises(p: list[float]) -> None:
    found = holm(np.array(p))
    assert (found >= p).all() and (found <= 1).all()
    assert (np.diff(found[np.argsort(p, kind="stable")]) >= 0).all()


def test_the_posterior_of_demsars_methods_is_that_of_baycomp() -> None:
    gains = TABLE_6[:, 1] - TABLE_6[:, 0]
    small, large = signed_rank_posterior(gains, 0.0051), signed_rank_posterior(gains, 0.0097)
    assert (small.worse, small.equal, small.better) == pytest.approx((0.000, 0.050, 0.950), abs=0.01)
    assert (large.worse, large.equal, large.better) == pytest.approx((0.000, 0.329, 0.671), abs=0.01)


def test_the_mean_of_the_posterior_is_known_for_equal_differences() -> None:
    """Only the pair of the prior with itself is not better: E w_0^2 = 1 2 / (4 5) = 0.1 under Dirichlet(1, 1, 1, 1)."""
    worse, equal, better = posterior_draws(np.full(3, 0.05), 0.01, prior=1.0).mean(axis=0)
    assert (worse, equal, better) == pytest.approx((0, 0.1, 0.9), abs=0.002)


def test_a_sum_at_the_edge_counts_half() -> None:
    draws = posterior_draws(np.array([0.01]), 0.01)  # 0.01 + 0.01 is at the edge, 0.01 + 0 is within
    stream = bayesian.numpy_stream(0, "bayesian signed rank", 1)
    weights = stream.dirichlet([0.5, 1.0], bayesian.DRAWS)
    assert draws[:, 2] == pytest.approx(weights[:, 1] ** 2 / 2)


def test_the_expected_best_of_trials_is_known() -> None:
    found = expected_best(np.array([0.3, 0.1, 0.4, 0.2]))
    assert found[:2] == pytest.approx([0.25, 0.3125])
    assert (np.diff(found) > 0).all() and found[-1] < 0.4


def test_a_diverged_trial_counts_as_the_worst() -> None:
    assert expected_best(np.array([0.4, np.nan])) == pytest.approx(expected_best(np.array([0.4, 0.4])))
    assert expected_best(np.array([0.2, np.nan, 0.4])) == pytest.approx(expected_best(np.array([0.2, 0.2, 0.4])))
    assert np.isnan(expected_best(np.array([np.nan]))).all()


def test_the_chance_to_meet_the_best_part_of_a_space_is_known() -> None:
    found = [chance_to_meet(1 / 6, 16), chance_to_meet(0.05, 16), chance_to_meet(0.05, 59)]
    assert found == pytest.approx([0.946, 0.560, 0.9515], abs=5e-4)


@pytest.mark.parametrize(
    ("clients", "samples", "mean"),
    [(20, 22, 0.767), (40, 45, 0.805), (100, 45, 0.801), (100, 175, 0.852), (40, 373, 0.869)],
)
def test_the_floor_of_a_tail_is_known(clients: int, samples: int, mean: float) -> None:
    assert chance_floor([(np.full(clients, samples), 0.9)], 0.05).mean == pytest.approx(mean, abs=0.002)


def test_the_floor_has_a_range_of_chance() -> None:
    found = chance_floor([(np.full(20, 22), 0.9)], 0.05)
    assert (found.low, found.high) == pytest.approx((15 / 22, 18 / 22))  # 0.682 to 0.818


def test_the_floor_of_the_mean_over_splits_has_a_narrower_range() -> None:
    one, four = (chance_floor([(np.full(40, 100), 0.9)] * splits, 0.05) for splits in (1, 4))
    assert four.mean == pytest.approx(one.mean, abs=0.002)
    assert four.high - four.low == pytest.approx((one.high - one.low) / 2, rel=0.1)


def test_the_floor_ignores_clients_without_test_samples_and_perfect_clients_have_none() -> None:
    found = chance_floor([(np.array([10, 0, 10]), 1.0), (np.array([0]), 0.9)], 0.05)
    assert (found.mean, found.low, found.high, found.n) == (1, 1, 1, 2)
    assert np.isnan(chance_floor([(np.array([0]), 0.9)], 0.05).mean)


def test_hurt_and_helped_are_counted_with_a_wilson_interval() -> None:
    found = hurt_and_helped(np.array([-0.1] * 9 + [0.1] * 8 + [0.0, 1e-7, np.nan]))
    assert (found.hurt, found.helped, found.clients, found.p) == (9, 8, 19, 1.0)
    assert wilson(31, 40) == pytest.approx((0.625, 0.877), abs=5e-4)
    for hurt, n in ((0, 20), (18, 20), (20, 20)):
        assert wilson(hurt, n) == pytest.approx(tuple(binomtest(hurt, n).proportion_ci(method="wilson")))
    assert wilson(0, 0) == (0, 1)


def test_the_sign_test_is_the_binomial_test() -> None:
    assert sign_test_p(12, 4) == pytest.approx(binomtest(4, 16).pvalue) == pytest.approx(0.077, abs=1e-3)
    assert sign_test_p(0, 0) == 1 and sign_test_p(18, 0) == pytest.approx(2 / 2**18)


def test_accuracy_at_equal_cost_is_that_of_the_last_affordable_round() -> None:
    cost, accuracy = np.array([1.0, 2.0, 3.0, 4.0]), np.array([np.nan, 0.5, 0.7, np.nan])
    assert [accuracy_at(b, cost, accuracy) for b in (2.0, 2.9, 9.0)] == [0.5, 0.5, 0.7]
    assert np.isnan(accuracy_at(1.5, cost, accuracy))  # not yet
    assert accuracy_at(0.0, np.zeros(2), np.array([0.4, 0.6])) == 0.6  # free of charge


def test_budgets_come_from_the_cheapest_method_that_pays() -> None:
    assert budgets([0.0, 8.0, 20.0]) == (8.0, 4.0, 2.0)
    assert budgets([0.0]) == ()


def test_the_two_way_bootstrap_covers_the_spread_of_seeds_and_clients() -> None:
    rng = np.random.default_rng(1)
    alike = np.tile(rng.normal(0.9, 0.05, 40), (3, 1))
    apart = alike + np.array([[-0.1], [0.0], [0.1]])
    narrow, wide = (two_way(values, lambda v: v.mean(axis=-1)) for values in (alike, apart))
    assert narrow.mean == pytest.approx(alike.mean()) and narrow.n == 40
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
    assert np.isnan(two_way(np.empty((0, 0)), lambda v: v.mean(axis=-1)).mean)


@pytest.mark.parametrize("seeds", [1, 3, 30])
def test_differences_between_clients_do_not_average_out_over_seeds(seeds: int) -> None:
    own = np.random.default_rng(1).normal(0.0, 0.05, 40)
    found = two_way(np.tile(own, (seeds, 1)), lambda v: v.mean(axis=-1), 2000)
    assert found.high - found.low == pytest.approx(2 * 1.96 * own.std() / np.sqrt(40), rel=0.1)


def test_the_bootstrap_covers_less_than_the_t_interval_with_few_blocks() -> None:
    """200 studies with 3 blocks; the lowest decile of 40 clients. The nominal coverage is 0.95."""
    rng = np.random.default_rng(5)
    blocks = rng.normal(0.88, 0.015, (201, 3, 1)) + rng.normal(0, 0.05, (201, 3, 40))
    lowest = np.sort(blocks, axis=-1)[..., : tail_size(40, 0.1)].mean(axis=-1)
    truth = lowest.mean()
    covered = [(found := t_interval(own)).low <= truth <= found.high for own in lowest]
    drawn = [two_way(own[:, None], lambda v: v[..., 0], 500) for own in lowest]
    assert np.mean(covered) > 0.9 > np.mean([found.low <= truth <= found.high for found in drawn])


@settings(max_examples=25, deadline=None)
@given(BLOCKS, st.permutations(range(4)))
def test_renaming_methods_permutes_every_result(values: np.ndarray, order: list[int]) -> None:
    found, renamed = friedman(block_ranks(values)), friedman(block_ranks(values[:, order]))
    assert renamed.mean_ranks == pytest.approx([found.mean_ranks[i] for i in order])
    assert (renamed.chi2, renamed.F) == pytest.approx((found.chi2, found.F))
    pairs = {frozenset((p.a, p.b)): p for p in all_pairs(values)}
    for pair in all_pairs(values[:, order]):
        before = pairs[frozenset((order[pair.a], order[pair.b]))]
        assert (pair.p, pair.holm) == pytest.approx((before.p, before.holm))
        assert abs(pair.effect) == pytest.approx(abs(before.effect))


@settings(max_examples=25, deadline=None)
@given(BLOCKS, st.integers(0, 5))
def test_adding_five_points_to_all_methods_of_a_block_changes_no_rank(values: np.ndarray, block: int) -> None:
    shifted = values.copy()
    shifted[block] += 0.05
    assert (block_ranks(shifted) == block_ranks(values)).all()


@settings(max_examples=10, deadline=None)
@given(BLOCKS)
def test_a_copy_of_a_method_is_equal_to_it(values: np.ndarray) -> None:
    twice = np.concatenate([values, values[:, :1]], axis=1)
    copy = to_reference(twice, 0)[-1]
    assert (copy.interval.mean, copy.interval.low, copy.interval.high, copy.p) == (0, 0, 0, 1)
    found = hurt_and_helped(twice[:, 4] - twice[:, 0])
    assert (found.hurt, found.helped, found.p) == (0, 0, 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=12))
def test_friedman_of_two_methods_is_the_sign_test(wins: list[bool]) -> None:
    values = np.array([[1.0, 0.0] if won else [0.0, 1.0] for won in wins])
    won = sum(wins)
    assert friedman(block_ranks(values)).chi2 == pytest.approx((2 * won - len(wins)) ** 2 / len(wins))


def test_pairs_are_compared_on_common_blocks_with_an_interval() -> None:
    values = np.array([[0.9, 0.8, np.nan], [0.8, 0.6, 0.5], [0.7, 0.4, 0.5]])
    first, second = to_reference(values, 0)
    assert (first.a, first.b, first.effect, first.p) == (1, 0, -1, 0.25)
    assert (first.interval.mean, first.interval.n, second.interval.n) == pytest.approx((-0.2, 3, 2))
    assert [pair.holm for pair in (first, second)] == [0.5, 0.5]
    assert first.t_holm == pytest.approx(2 * ttest_1samp([-0.1, -0.2, -0.3], 0).pvalue)
    assert np.isnan(to_reference(np.array([[1.0, np.nan]]), 0)[0].p)


def test_the_t_test_is_that_of_the_interval() -> None:
    values = np.array([0.1, 0.4, 0.3, -0.05])
    p = t_test_p(values)
    assert p == pytest.approx(float(ttest_1samp(values, 0).pvalue))
    assert t_interval(values, 1 - p).low == pytest.approx(0)
    assert (t_test_p(np.full(3, 0.5)), t_test_p(np.zeros(3))) == (0, 1) and np.isnan(t_test_p(np.ones(1)))


def test_few_studies_of_equal_methods_name_one_that_differs() -> None:
    stream = np.random.default_rng(0)
    studies = [to_reference(stream.normal(0.8, 0.03, (5, 12)), 0) for _ in range(150)]
    named = [any(relation(pair) in ("ahead", "behind") for pair in pairs) for pairs in studies]
    assert 0 < np.mean(named) < 0.08  # without the correction: 0.2
