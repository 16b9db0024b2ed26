"""FedDyn: its first round, rounds in the paper's own form computed with numpy, and its limits."""

from typing import Any

import numpy as np
import pytest
import torch

from engine.algorithms.feddyn import State
from engine.core.errors import InvalidConfig
from engine.core.params import broadcast
from engine.training.local import SGD, local_sgd
from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    config,
    federation,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import Model, as_matrix, batches_of, newcomers_of, start_of
from tests.support.settings import UNEQUAL_STEPS


def feddyn(alpha, **options):
    return {"name": "feddyn", "alpha": alpha, **options}


@pytest.mark.parametrize("training", [{}, {"momentum": 0.5, "weight_decay": 0.1}, {"participation": 0.5}], ids=str)
def test_the_first_round_of_feddyn_trains_as_fedprox_and_moves_further(training):
    run = simulation(feddyn(0.7), **training)
    cohort = run.task.cohort(1)
    after, _ = run.algorithm.round(run.state, cohort, run.task)
    start = run.state.global_params
    received = broadcast(start, cohort.size)
    local = local_sgd(run.task, received, cohort, SGD.of(run.task, prox=(0.7, received)))
    mean = {n: p.mean(0) - start[n] for n, p in local.params.items()}
    longer = 1 + cohort.size / len(SIZES)
    assert_close(after.global_params, {n: start[n] + longer * d for n, d in mean.items()}, 1e-12)


@pytest.mark.parametrize("training", UNEQUAL_STEPS, ids=["steps", "epochs"])
@pytest.mark.parametrize("participation", [0.5, 1.0])
def test_feddyn_rounds_follow_the_paper(training, participation):
    """Algorithm 1 with the clients' gradient memories g_i and the server's h."""
    alpha = 0.8
    run = trained(feddyn(alpha), rounds=4, participation=participation, **training)
    w, h, memory = start_of(run), 0.0, [np.zeros((3, 6))] * len(SIZES)
    for round in (1, 2, 3, 4):
        models = []
        for i, batches in enumerate(batches_of(run, round)):
            if batches is None:
                continue
            local = w
            for x, y in batches:
                local = local - LR * (reference.gradient(local, x, y) - memory[i] + alpha * (local - w))
            memory[i] = memory[i] - alpha * (local - w)
            models.append(local)
        h = h - alpha / len(SIZES) * sum(local - w for local in models)
        w = np.mean(models, axis=0) - h / alpha
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-11)
    np.testing.assert_allclose(-alpha * as_matrix(run.state.client_drifts), memory, atol=1e-11)
    np.testing.assert_allclose(-alpha * as_matrix(run.state.mean_drift), h, atol=1e-11)
    last = list(simulation(feddyn(alpha), rounds=4, participation=participation, **training).rounds())[-1]
    assert last.scalars["diagnostics.drift"] == pytest.approx(np.linalg.norm(h) / alpha)


def test_weights_by_samples_give_small_clients_a_stronger_pull():
    run = trained(feddyn(0.8, weights="samples"), rounds=2, participation=0.75)
    alphas = 0.8 * sum(SIZES) / len(SIZES) / np.array(SIZES)
    w, drifts = start_of(run), np.zeros((len(SIZES), 3, 6))
    for round in (1, 2):
        models = []
        for i, batches in enumerate(batches_of(run, round)):
            if batches is None:
                continue
            local = w
            for x, y in batches:
                local = local - LR * (reference.gradient(local, x, y) + alphas[i] * (local - w + drifts[i]))
            drifts[i] += local - w
            models.append(local)
        w = np.mean(models, axis=0) + drifts.mean(0)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-12)


L2 = 0.3


def slopes(data: list, W: Model) -> np.ndarray:
    """The gradient of each client's loss, with its L2 term, which leaves out the bias."""
    decay = L2 * np.c_[W[:, :-1], np.zeros(len(W))]
    return np.array([reference.gradient(W, x, y) + decay for x, y in data])


@pytest.mark.parametrize(("weights", "shares"), [("uniform", np.ones(4)), ("samples", np.array([4, 12, 8, 6]))])
def test_feddyn_rests_at_the_minimizer_of_the_loss_that_its_weights_choose(weights, shares):
    """There alpha_i c_i = -grad f_i(w), the local steps do not move, and the c_i sum to 0."""
    setting: dict[str, Any] = {"local_steps": 5, "batch_size": "full", "lr": 0.5, "model": {"name": "mlr", "l2": L2}}
    run = simulation(feddyn(0.4, weights=weights), federation((4, 12, 8, 6)), rounds=8, **setting)
    W, data = start_of(run), [batches[0] for batches in batches_of(run, 1)]
    for _ in range(400):
        W = W - 0.5 * np.average(slopes(data, W), axis=0, weights=shares)
    alphas = 0.4 / shares * shares.mean()
    drifts = torch.from_numpy(-slopes(data, W) / alphas[:, None, None])
    there = State(
        {"head.weight": torch.from_numpy(W[:, :-1].copy()), "head.bias": torch.from_numpy(W[:, -1].copy())},
        run.state.mean_drift,
        {"head.weight": drifts[..., :-1].clone(), "head.bias": drifts[..., -1].clone()},
    )
    after, _ = run.algorithm.round(there, run.task.cohort(1), run.task)
    np.testing.assert_allclose(as_matrix(after.global_params), W, atol=1e-7)
    np.testing.assert_allclose(as_matrix(after.client_drifts), drifts, atol=1e-7)
    for _ in run.rounds():
        pass
    before, now = (np.linalg.norm(as_matrix(w) - W) for w in (run.task.initial_model(), shared_model(run)))
    assert now < before / 5


def test_feddyn_with_a_tiny_alpha_is_not_fedavg():
    """At full participation the first round moves w by twice the mean change."""
    equal = federation((6, 6, 6, 6))
    found = shared_model(trained(feddyn(1e-9), equal, rounds=1))
    run = trained("fedavg", equal, rounds=1)
    start = run.task.initial_model()
    assert_close(found, {n: 2 * w - start[n] for n, w in shared_model(run).items()}, 1e-7)


def test_feddyn_refuses_alpha_zero():
    with pytest.raises(InvalidConfig, match="alpha: 0"):
        config(feddyn(0))


def test_feddyn_warns_of_steps_that_may_grow():
    assert any("above 2" in note for note in simulation(feddyn(50)).task.notes)


def test_a_newcomer_of_feddyn_uses_the_global_model():
    run = trained("feddyn", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
