"""AFL: its limits, and rounds computed with numpy."""

import numpy as np
import pytest
import torch

from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    federation,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of


def afl(lambda_lr, average=False):
    return {"name": "afl", "lambda_lr": lambda_lr, "average": average}


def losses_of(run, w) -> np.ndarray:
    data = [run.task.data.train.of_client(i) for i in range(run.task.num_clients)]
    return np.array([reference.loss(w, x.numpy(), y.numpy()) for x, y in data])


def on_simplex(v: np.ndarray) -> np.ndarray:
    """max(v - c, 0) with the c that makes its sum 1, found by bisection."""
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(v - high, 0)


@pytest.mark.parametrize("training", [{}, {"momentum": 0.5}, {"participation": 0.5}], ids=str)
def test_afl_with_fixed_weights_is_fedavg_with_equal_weights(training):
    equal = federation((6, 6, 6, 6))
    found = trained(afl(0), equal, rounds=3, **training)
    assert_close(shared_model(found), shared_model(trained("fedavg", equal, rounds=3, **training)), 1e-13)
    assert any("fedavg with equal weights" in note for note in found.task.notes)


def test_one_full_step_of_afl_descends_the_weighted_loss():
    run = trained(afl(0.3), rounds=3, local_steps=1, batch_size="full")
    w, weights = start_of(run), np.full(4, 0.25)
    data = [tuple(p.numpy() for p in run.task.data.train.of_client(i)) for i in range(4)]
    for _ in range(3):
        losses = losses_of(run, w)
        w = w - LR * np.einsum("i,icf->cf", weights, [reference.gradient(w, x, y) for x, y in data])
        weights = on_simplex(weights + 0.3 * losses)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-12)


def test_a_huge_rate_puts_all_weight_on_the_worst_client():
    run = trained(afl(1e6), rounds=1)
    worst = np.argmax(losses_of(run, start_of(run)))
    np.testing.assert_array_equal(run.state.client_weights, np.eye(4)[worst])


@pytest.mark.parametrize("average", [False, True])
def test_afl_rounds_follow_the_paper(average):
    run = trained(afl(0.4, average), rounds=4, participation=0.5)
    w, weights, models = start_of(run), np.full(4, 0.25), []
    for round in (1, 2, 3, 4):
        losses, batches = losses_of(run, w), batches_of(run, round)
        inside = [i for i, b in enumerate(batches) if b is not None]
        shares = weights[inside] / weights[inside].sum()
        w = np.average([reference.sgd(w, batches[i], LR) for i in inside], axis=0, weights=shares)
        weights = weights.copy()
        weights[inside] += 0.4 * 4 / 2 * losses[inside]
        weights = on_simplex(weights)
        models.append(w)
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.mean(models, 0) if average else w, atol=1e-12)
    np.testing.assert_allclose(run.state.client_weights, weights, atol=1e-12)


def test_a_cohort_without_weight_is_averaged_equally():
    run = simulation(afl(0.1), participation=0.5)
    cohort = run.task.cohort(1)
    outside = next(i for i in range(4) if i not in cohort.client_ids)
    weightless = type(run.state)(
        run.state.last_params, run.state.global_params, torch.eye(4, dtype=torch.float64)[outside], 0
    )
    found, _ = run.algorithm.round(weightless, cohort, run.task)
    copies = [reference.sgd(start_of(run), b, LR) for b in batches_of(run, 1) if b]
    np.testing.assert_allclose(as_matrix(found.last_params), np.mean(copies, 0), atol=1e-13)


def test_afl_records_its_weights_and_the_largest_loss():
    run = simulation("afl", rounds=1)
    last = list(run.rounds())[-1]
    losses = losses_of(run, start_of(run))
    assert last.scalars["diagnostics.max_loss"] == pytest.approx(losses.max())
    np.testing.assert_allclose(last.arrays["diagnostics.weights"], on_simplex(0.25 + 0.1 * losses), atol=1e-12)
    assert last.scalars["bytes_up"] == last.scalars["bytes_down"] + 8 * len(SIZES)


def test_a_newcomer_of_afl_uses_the_mean_of_the_rounds():
    run = trained("afl", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
    assert not torch.equal(run.state.last_params["head.weight"], run.state.global_params["head.weight"])
