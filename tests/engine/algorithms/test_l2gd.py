"""L2GD: its limits, rounds computed with numpy, and when models are sent."""

import numpy as np
import pytest

from engine.simulation.simulate import Simulation
from tests.support import reference
from tests.support.builders import (
    LR,
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of
from tests.support.settings import UNEQUAL_STEPS


def coins_of(run: Simulation, round: int) -> tuple[bool, ...]:
    return run.algorithm._coins(run.task, run.task.cohort(round))


def test_l2gd_without_averaging_is_local_training():
    run = trained({"name": "l2gd", "p": 0})
    assert_equal(personalized(run), personalized(trained("local_train")))
    assert any("alone" in note for note in run.task.notes)


@pytest.mark.parametrize("training", UNEQUAL_STEPS, ids=["steps", "epochs"])
def test_l2gd_rounds_follow_the_paper(training):
    lam, p, rounds = 1.5, 0.4, 4
    run = simulation({"name": "l2gd", "lam": lam, "p": p}, rounds=rounds, participation=0.75, **training)
    results = list(run.rounds())
    N = len(SIZES)
    step, x = N * (1 - p) * LR, [start_of(run)] * N
    for round in range(1, rounds + 1):
        batches, evaluations = batches_of(run, round), 0
        taking_part = [i for i in range(N) if batches[i] is not None]
        losses = {i: [] for i in taking_part}
        for k, is_mean in enumerate(coins_of(run, round)):
            mean = np.mean([x[i] for i in taking_part], axis=0)
            for i in taking_part:
                if is_mean:
                    x[i] = x[i] - step * lam / (N * p) * (x[i] - mean)
                elif k < len(batches[i]):
                    losses[i].append(reference.loss(x[i], *batches[i][k]))
                    x[i] = x[i] - step / (N * (1 - p)) * reference.gradient(x[i], *batches[i][k])
                    evaluations += len(batches[i][k][1])
        for i in taking_part:
            if not losses[i]:
                losses[i].append(reference.loss(x[i], *batches[i][0]))
                evaluations += len(batches[i][0][1])
            assert results[round].arrays["train_loss"][i] == pytest.approx(np.mean(losses[i]), rel=1e-10)
        assert results[round].scalars["gradient_evaluations"] == evaluations
        mean = np.mean([x[i] for i in taking_part], axis=0)
    assert {coin for round in range(1, rounds + 1) for coin in coins_of(run, round)} == {True, False}
    np.testing.assert_allclose(as_matrix(personalized(run)), x, atol=1e-10)
    np.testing.assert_allclose(as_matrix(shared_model(run)), mean, atol=1e-10)


def test_the_default_step_of_l2gd_gives_the_training_rate():
    p = 0.4
    given = trained({"name": "l2gd", "p": p, "step": len(SIZES) * (1 - p) * LR}, rounds=4)
    assert_close(personalized(given), personalized(trained({"name": "l2gd", "p": p}, rounds=4)), 1e-12)


def test_l2gd_sends_models_when_the_coin_changes_from_local_to_aggregate():
    run = simulation({"name": "l2gd", "p": 0.7}, rounds=8)
    sent = [result.scalars["bytes_up"] for result in run.rounds()]
    size, is_level = 18 * 8 * len(SIZES), True  # the mean of equal initial models needs no communication
    for round in range(1, 9):
        turns = 0
        for is_mean in coins_of(run, round):
            turns += is_mean and not is_level
            is_level = is_mean
        assert sent[round] == turns * size
    first = [coins_of(run, round)[0] for round in range(2, 9)]
    last = [coins_of(run, round)[-1] for round in range(1, 8)]
    assert any(a and b for a, b in zip(first, last, strict=True)), "no round goes on averaging: choose another seed"


def test_a_new_cohort_of_l2gd_sends_before_it_averages():
    run = simulation({"name": "l2gd", "p": 0.9999}, rounds=6, participation=0.5)
    cohorts, sent = zip(*[(r.cohort.tolist(), r.scalars["bytes_up"]) for r in run.rounds()], strict=True)
    assert all(all(coins_of(run, round)) for round in range(1, 7))
    for round in range(1, 7):
        assert (sent[round] > 0) == (cohorts[round] != cohorts[round - 1])


def test_a_round_of_l2gd_without_local_steps_still_records_its_loss():
    run = simulation({"name": "l2gd", "p": 0.9999}, rounds=1)
    result = list(run.rounds())[1]
    assert all(coins_of(run, 1)) and result.scalars["bytes_up"] == 0
    assert_close(shared_model(run), run.task.initial_model(), 1e-12)
    first = [batches[0] for batches in batches_of(run, 1)]
    losses = [reference.loss(start_of(run), x, y) for x, y in first]
    np.testing.assert_allclose(result.arrays["train_loss"], losses, rtol=1e-12)
    assert result.scalars["gradient_evaluations"] == sum(len(y) for _, y in first)


def test_l2gd_warns_of_overshooting_steps():
    def notes(**entry: float) -> list[str]:
        return simulation({"name": "l2gd"} | entry).task.notes

    assert any("overshoots" in note for note in notes(lam=30.0))
    assert not notes(lam=1.0)


def test_a_newcomer_of_l2gd_starts_at_the_mean():
    run = trained({"name": "l2gd", "p": 0}, with_newcomers())
    found, batches = newcomers_of(run)
    mean = as_matrix(shared_model(run))
    np.testing.assert_allclose(found, [reference.sgd(mean, b, LR) for b in batches], atol=1e-12)


@pytest.mark.parametrize("training", [{"local_steps": 8}, {"local_epochs": 6}], ids=str)
def test_a_newcomer_of_l2gd_is_pulled_towards_the_servers_mean_until_its_batches_end(training):
    step = len(SIZES) * 0.5 * LR  # the mean over the clients that train, for any number of newcomers
    run = trained({"name": "l2gd", "p": 0.5, "lam": 1.7, "step": step}, with_newcomers(), **training)
    task = run.task.of_unseen()
    coins = run.algorithm._coins(task, task.everyone(stream="newcomers"))
    found, batches = newcomers_of(run)
    mean = as_matrix(shared_model(run))
    for x, given in zip(found, batches, strict=True):
        own = mean
        for is_mean, batch in zip(coins, given, strict=False):
            own = own - LR * (1.7 * (own - mean) if is_mean else reference.gradient(own, *batch))
        np.testing.assert_allclose(x, own, atol=1e-12)
    assert not all(coins) and any(coins[coins.index(False) :])
