"""SCAFFOLD: its limits, and rounds computed with numpy."""

from typing import Any

import numpy as np
import pytest

from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import Model, as_matrix, batches_of, newcomers_of, start_of
from tests.support.settings import UNEQUAL_STEPS


@pytest.mark.parametrize("training", [{}, {"momentum": 0.5, "weight_decay": 0.1}, {"batch_size": "full"}], ids=str)
def test_the_first_round_of_scaffold_is_fedavg_with_uniform_weights(training):
    data = federation(sizes=(6, 6, 6, 6))
    scaffold, fedavg = (shared_model(trained(m, data, rounds=1, **training)) for m in ("scaffold", "fedavg"))
    assert_close(scaffold, fedavg)
    copies = personalized(trained("local_train", rounds=1, **training))  # clients of unequal sizes
    assert_close(shared_model(trained("scaffold", rounds=1, **training)), {n: p.mean(0) for n, p in copies.items()})


@pytest.mark.parametrize("training", UNEQUAL_STEPS, ids=["steps", "epochs"])
def test_scaffold_rounds_follow_the_paper(training):
    run = trained({"name": "scaffold", "server_lr": 0.7}, rounds=3, participation=0.75, **training)
    w, c, own = start_of(run), 0.0, [np.zeros((3, 6))] * len(SIZES)
    for round in (1, 2, 3):
        models, changes = [], []
        for i, batches in enumerate(batches_of(run, round)):
            if batches is None:
                continue
            local = w
            for x, y in batches:
                local = local - LR * (reference.gradient(local, x, y) - own[i] + c)
            updated = own[i] - c + (w - local) / (len(batches) * LR)
            changes.append(updated - own[i])
            models.append(local)
            own[i] = updated
        w = w + 0.7 * np.mean([local - w for local in models], axis=0)
        c = c + len(models) / len(SIZES) * np.mean(changes, axis=0)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-10)
    np.testing.assert_allclose(as_matrix(run.state.client_controls), own, atol=1e-10)
    np.testing.assert_allclose(as_matrix(run.state.control), c, atol=1e-10)


def test_the_server_control_of_scaffold_is_the_mean_of_the_clients():
    run = trained("scaffold", rounds=4, participation=0.5)
    assert_close(run.state.control, {n: p.mean(0) for n, p in run.state.client_controls.items()}, 1e-12)


@pytest.mark.slow
def test_scaffold_converges_where_fedavg_drifts():
    """With full batches and equal clients, w converges to the minimizer of the uniform mean of the losses."""
    setting: dict[str, Any] = {"rounds": 40, "local_steps": 5, "batch_size": "full", "lr": 0.5}

    def slope(method: str) -> float:
        run = trained(method, federation(sizes=(8, 8, 8, 8)), model={"name": "mlr", "l2": 0.1}, **setting)
        W = as_matrix(shared_model(run))
        given = [batches[0] for batches in batches_of(run, 1)]
        return float(np.abs(np.mean([reference.gradient(W, x, y) for x, y in given], 0) + 0.1 * decayed(W)).max())

    assert slope("scaffold") < 1e-6 < 1e-4 < slope("fedavg")


def decayed(W: Model) -> Model:
    """The weights without the bias, which has no L2 term."""
    return np.c_[W[:, :-1], np.zeros(len(W))]


def test_scaffold_sends_twice_as_much_as_fedavg():
    costs = [
        [(r.scalars["bytes_up"], r.scalars["bytes_down"]) for r in simulation(m).rounds()]
        for m in ("fedavg", "scaffold")
    ]
    assert costs[1] == [(2 * up, 2 * down) for up, down in costs[0]]


def test_scaffold_warns_of_momentum():
    assert any("overstate" in note for note in simulation("scaffold", momentum=0.5).task.notes)


def test_a_newcomer_of_scaffold_uses_the_global_model():
    run = trained("scaffold", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
