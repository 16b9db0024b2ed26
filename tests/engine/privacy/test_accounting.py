"""Epsilon: known answers, exact ones, and those of other accountants."""

import math
from functools import partial

import pytest
from scipy.special import log_ndtr

from engine.privacy.accounting import epsilon, epsilon_of_fixed_size, noise_for, noise_of_updates

HUNDRED = 100**-1.1  # delta of 100 clients


@pytest.mark.parametrize(
    ("rate", "noise", "releases", "delta", "expected"),
    [
        (1, 1, 1, 1e-5, 4.377178),  # exact: Balle, Wang, ICML 2018
        (1, 4.530877117, 1, 1e-6, 0.927392),
        (0.04, 1.5, 2250, 1e-5, 6.76879),
        (0.04, 1.5, 2249, 1e-5, 6.76705),  # 6.77740 by Opacus' PRV accountant
    ],
)
def test_epsilon_has_its_known_values(rate, noise, releases, delta, expected):
    assert epsilon(rate, noise, releases, delta) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(
    ("noise", "releases", "delta"), [(0.3, 40, 1e-3), (2, 40, 1e-2), (8, 40, 1e-5), (100, 3, 1e-6)]
)
def test_everyone_in_every_release_has_the_delta_of_its_epsilon(noise, releases, delta):
    z, found = noise / math.sqrt(releases), epsilon(1, noise, releases, delta)
    first, second = (float(log_ndtr(side / (2 * z) - found * z)) for side in (1, -1))
    assert math.exp(first) - math.exp(found + second) == pytest.approx(delta, rel=1e-6)


def test_everyone_in_every_release_costs_as_much_as_by_privacy_losses():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    by_losses = PLDAccountant(value_discretization_interval=1e-3).compose(GaussianDpEvent(8.0), 40)
    assert epsilon(1, 8, 40, 1e-2) == pytest.approx(by_losses.get_epsilon(1e-2), abs=2e-3)


def test_noise_that_hides_everything_costs_nothing():
    assert epsilon(1, 1e6, 1, 1e-2) == 0 < epsilon(1, 1e-2, 40, 1e-2) < math.inf


def test_small_losses_are_not_rounded_up_to_large_ones():
    """Within a hundredth of epsilon by steps of 1e-5."""
    assert epsilon(0.01, 20, 1000, 1e-6) == pytest.approx(0.05534, rel=0.01)
    assert epsilon(0.001, 3, 10000, 1e-6) == pytest.approx(0.12727, rel=0.01)
    assert epsilon(0.0001, 100, 100_000, 1e-8) == pytest.approx(0.001156, rel=0.01)


def test_many_releases_cost_a_hundredth_of_epsilon_for_coarser_losses():
    assert epsilon(256 / 60000, 1.1, 14062, 1e-5) == pytest.approx(2.38169, abs=1e-2)


@pytest.mark.parametrize(
    ("rate", "by_noise"), [(1, {1: 34.94, 2: 12.16, 4: 4.60, 8: 1.84}), (0.3, {1: 7.91, 2: 2.60, 4: 0.99})]
)
def test_epsilon_of_forty_rounds_of_a_hundred_clients(rate, by_noise):
    found = {noise: round(epsilon(rate, noise, 40, HUNDRED), 2) for noise in by_noise}
    assert found == by_noise


def test_a_fixed_number_of_participants_protects_far_less_than_independent_draws():
    assert epsilon(0.1, 1, 50, 1e-3) == pytest.approx(3.31, abs=0.01)
    assert epsilon_of_fixed_size(10, 100, 1, 50, 1e-3) == pytest.approx(42.4, abs=0.05)


def test_replacing_a_client_moves_the_sum_twice_as_far_as_removing_one():
    assert epsilon_of_fixed_size(100, 100, 2, 1, 1e-5) == pytest.approx(epsilon(1, 1, 1, 1e-5), abs=1e-6)


@pytest.mark.parametrize(("rate", "expected"), [(1, 2.6790), (0.3, 0.9934)])
def test_the_noise_for_epsilon_8_after_forty_rounds(rate, expected):
    of_noise = partial(epsilon, rate, releases=40, delta=HUNDRED)
    found = noise_for(lambda z: of_noise(noise=z), 8.0)
    assert found == pytest.approx(expected, abs=1e-3)
    assert of_noise(noise=found) <= 8


def test_an_epsilon_that_no_noise_reaches_is_refused():
    with pytest.raises(ValueError, match="no noise multiplier up to 1e\\+06 reaches it"):
        noise_for(lambda z: 5.0, 1.0)


@pytest.mark.slow
def test_epsilon_rises_with_rounds_and_falls_with_noise_and_delta():
    assert 0 == epsilon(0.2, 1, 0, 1e-3) < epsilon(0.2, 1, 5, 1e-3) < epsilon(0.2, 1, 20, 1e-3)
    assert epsilon(0.2, 2, 5, 1e-3) < epsilon(0.2, 1, 5, 1e-3) < epsilon(0.2, 0, 5, 1e-3) == float("inf")
    assert epsilon(0.2, 1, 5, 1e-2) < epsilon(0.2, 1, 5, 1e-3)


@pytest.mark.parametrize(("clients", "expected"), [(100, 1.005038), (40, 1.032796), (20, 1.154701)])
def test_updates_get_more_noise_where_a_count_is_released_too(clients, expected):
    assert noise_of_updates(1.0, clients / 20) == pytest.approx(expected, abs=1e-6)


def test_a_count_that_costs_more_than_the_budget_is_refused():
    with pytest.raises(ValueError, match=r"a count with the noise 0.5 costs more"):
        noise_of_updates(1.0, 0.5)
