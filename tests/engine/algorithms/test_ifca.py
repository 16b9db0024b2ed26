"""IFCA: rounds computed with numpy, and its costs."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from engine.core.errors import Unsupported
from tests.support import reference
from tests.support.builders import personalized, simulation, trained
from tests.support.clusters import TRUTH, ZEROS, groups, training_loss, two_rules
from tests.support.reference import as_matrix, batches_of


def test_ifca_rounds_follow_the_paper():
    run = simulation({"name": "ifca", "K": 3}, two_rules((6, 9, 4, 7, 8, 5)), participation=0.5, rounds=3)
    clients = range(run.task.num_clients)
    models = [as_matrix(run.task.initial_model(k)) for k in range(3)]
    for result in run.rounds():
        if result.round:
            batches, sizes = batches_of(run, result.round), run.task.train_sizes
            chosen = {i: np.argmin([training_loss(run, W, i) for W in models]) for i in result.cohort}
            copies = {i: reference.sgd(models[k], batches[i], 0.1) for i, k in chosen.items()}
            for k in set(chosen.values()):
                members = [i for i in chosen if chosen[i] == k]
                models[k] = np.average([copies[i] for i in members], axis=0, weights=[sizes[i] for i in members])
            losses = np.array([[training_loss(run, W, i) for W in models] for i in clients])
            np.testing.assert_allclose(result.arrays["diagnostics.losses"], losses, atol=1e-10)
            np.testing.assert_array_equal(result.clusters, losses.argmin(1))
            assert result.scalars["diagnostics.ari"] == adjusted_rand_score(TRUTH, losses.argmin(1))
        best = [np.argmin([training_loss(run, W, i) for W in models]) for i in clients]
        np.testing.assert_allclose(as_matrix(personalized(run)), np.stack(models)[best], atol=1e-10)


def test_ifca_finds_two_kinds_of_clients():
    run = trained({"name": "ifca", "K": 2}, two_rules((20,) * 6), rounds=5, local_steps=9)
    assert groups(run.state.contexts.assigned) == groups(TRUTH)


def test_ifca_sends_every_model_and_receives_one():
    results = list(simulation({"name": "ifca", "K": 3}, participation=0.5).rounds())
    sent, returned = results[1].scalars["bytes_down"], results[1].scalars["bytes_up"]
    assert sent == 3 * returned == 3 * 2 * 18 * 8


def test_ifca_evaluates_as_many_gradients_as_fedavg():
    costs = [[r.scalars["gradient_evaluations"] for r in simulation(a).rounds()] for a in ("fedavg", "ifca")]
    assert costs[0] == costs[1]


def test_ifca_refuses_identical_initial_models():
    with pytest.raises(Unsupported, match="init: default, or K: 1"):
        simulation({"name": "ifca", "K": 2}, model=ZEROS)
    simulation({"name": "ifca", "K": 1}, model=ZEROS)
