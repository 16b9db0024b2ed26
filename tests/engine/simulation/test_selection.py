"""The choice among trials, with known answers."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest

from engine.config.tune import Select
from engine.simulation.selection import Chosen, Validation, choose, value_of

SIZES = np.array([10.0, 30.0])


def measured(*accuracy: float, loss: float = 1.0) -> list[Validation]:
    """One seed of two clients."""
    return [Validation(np.array(accuracy), np.full(2, float(loss)), SIZES)]


def test_the_largest_mean_is_chosen_with_its_standard_error() -> None:
    found = choose({0: measured(0.5, 0.5), 1: measured(0.9, 0.8), 2: measured(0.7, 0.6)}, "mean")
    error = sqrt(0.9 * 0.1 / 10 + 0.8 * 0.2 / 30) / 2
    assert (found.trial, found.considered, found.tied) == (1, 3, 1)
    assert (found.value, found.error) == pytest.approx((0.85, error))


def test_trials_within_one_error_of_the_best_are_tied() -> None:
    assert choose({0: measured(0.85, 0.8), 1: measured(0.9, 0.8), 2: measured(0.5, 0.5)}, "mean").tied == 2


def test_equal_values_are_decided_by_the_loss_and_then_by_the_number() -> None:
    trials = {0: measured(0.5, 0.7, loss=2), 1: measured(0.7, 0.5 + 1e-10, loss=1), 2: measured(0.6, 0.6, loss=1)}
    assert choose(trials, "mean").trial == 1
    found = choose({k: measured(0.6, 0.6) for k in (0, 1, 2)}, "mean")
    assert (found.trial, found.tied) == (0, 3)


@pytest.mark.parametrize("failed", [[None], measured(np.nan, np.nan)])
def test_a_trial_that_failed_is_the_worst_and_counts(failed: list) -> None:
    assert choose({0: failed, 1: measured(0.1, 0.1)}, "mean").trial == 1
    assert choose({0: failed, 1: measured(0.1, 0.1)}, "mean").considered == 2
    assert choose({0: failed, 1: failed}, "mean") == Chosen(0, None, None, 2, 2)


def test_a_trial_that_failed_with_one_of_its_seeds_is_the_worst() -> None:
    assert value_of([None, *measured(1.0, 1.0)], "mean") == -inf
    assert choose({0: [None, *measured(1.0, 1.0)], 1: [*measured(0.1, 0.1), *measured(0.2, 0.2)]}, "mean").trial == 1


def test_seeds_are_averaged() -> None:
    found = choose({0: [*measured(0.4, 0.4), *measured(0.8, 0.8)]}, "mean")
    assert found.value == pytest.approx(0.6) and found.error == pytest.approx(sqrt(0.24 / 10 + 0.24 / 30) / 2)


def test_malicious_clients_are_left_out_and_each_seed_has_its_own() -> None:
    accuracy, loss = np.array([0.4, 0.8], np.float32), np.array([3.0, 1.0], np.float32)
    assert Validation.of_benign(accuracy, loss, SIZES, None).value("mean") == pytest.approx(0.6)
    seeds = [Validation.of_benign(accuracy, loss, SIZES, who) for who in ((True, False), (False, True))]
    assert [one.value("weighted_mean") for one in seeds] == pytest.approx([0.8, 0.4])
    assert [one.value("loss") for one in seeds] == pytest.approx([-1.0, -3.0])
    found = choose({0: seeds}, "mean")
    assert (found.value, found.error) == pytest.approx((0.6, sqrt(0.24 / 10 + 0.16 / 30) / 2))
    assert choose({0: seeds[:1]}, "mean").error == pytest.approx(sqrt(0.16 / 30))


@pytest.mark.parametrize(
    ("select", "expected"),
    [("mean", 0.55), ("weighted_mean", 0.7 * 0.5 / 0.7 + 0.2), ("lowest5", 0.1), ("lowest10", 0.15), ("loss", -3.0)],
)
def test_what_settings_are_selected_by(select: str, expected: float) -> None:
    accuracy = np.array([0.1, 0.2, *([0.6] * 17), 1.0, np.nan])
    accuracy[2:19] = (0.55 * 20 - 1.3) / 17
    sizes = np.array([*([1.0] * 20), 0.0])
    if select == "weighted_mean":
        accuracy, sizes = np.array([0.5, 1.0, np.nan]), np.array([6.0, 4.0, 0.0])
    found = Validation(accuracy, np.where(np.isnan(accuracy), np.nan, 3.0), sizes).value(select)
    assert found == pytest.approx(expected)


def test_the_least_loss_is_chosen_and_has_no_error_of_an_accuracy() -> None:
    found = choose({0: measured(0.9, 0.9, loss=2.0), 1: measured(0.1, 0.1, loss=0.5)}, "loss")
    assert found == Chosen(1, 0.5, None, 2, 1)


def test_adding_a_constant_to_all_accuracies_changes_no_choice() -> None:
    rng = np.random.default_rng(1)
    trials = {k: measured(*rng.uniform(0.2, 0.6, 2)) for k in range(8)}
    shifted = {k: [replace(one, accuracy=one.accuracy + 0.3) for one in seeds] for k, seeds in trials.items()}
    for select in ("mean", "weighted_mean", "lowest5"):
        assert choose(trials, select).trial == choose(shifted, select).trial


def test_renaming_trials_renames_the_choice() -> None:
    rng = np.random.default_rng(2)
    trials = {k: measured(*rng.uniform(size=2)) for k in range(6)}
    assert choose({k + 10: seeds for k, seeds in trials.items()}, "mean").trial == choose(trials, "mean").trial + 10


@pytest.mark.parametrize("select", ["weighted_mean", "lowest10", "lowest5"])
def test_the_error_is_that_of_the_number_which_decides(select: Select) -> None:
    stream, sizes = np.random.default_rng(0), np.array([20.0] * 30 + [60.0] * 10)
    loss = np.ones(40)
    drawn = [Validation(stream.binomial(sizes.astype(int), 0.8) / sizes, loss, sizes) for _ in range(400)]
    true = float(np.std([one.value(select) for one in drawn]))
    reported = [choose({0: [one]}, select).error or 0.0 for one in drawn[:20]]
    assert np.mean(reported) == pytest.approx(true, rel=0.35)  # draws from noisy accuracies spread more
    assert choose({0: [drawn[0]]}, select) == choose({0: [drawn[0]]}, select)
