"""IFCA, CFL and FL+HC: FedAvg as long as there is one cluster, and the models of newcomers."""

import numpy as np
import pytest

from tests.support.builders import assert_close, assert_equal, personalized, shared_model, simulation, trained
from tests.support.clusters import matrices, training_loss, two_rules
from tests.support.reference import as_matrix


@pytest.mark.parametrize(
    "method",
    [
        {"name": "ifca", "K": 1},
        {"name": "cfl", "eps1": 0, "warmup": 0},
        {"name": "cfl", "warmup": 3},
        {"name": "fl_hc", "at_round": 4},
        {"name": "fl_hc", "at_round": 3, "n_clusters": 1},
    ],
)
def test_one_cluster_is_fedavg_with_a_note(method):
    data = two_rules()
    expected = shared_model(trained("fedavg", data, rounds=3))
    found = trained(method, data, rounds=3)
    for client in range(data.num_clients):
        assert_close({n: p[client] for n, p in personalized(found).items()}, expected, 1e-12)
    assert_equal(personalized(found), shared_model(found))
    assert any("this is fedavg" in note for note in found.task.notes)


@pytest.mark.parametrize("method", ["ifca", "cfl", "fl_hc"])
def test_each_clients_model_is_evaluated_once(method):
    run = trained(method)
    one, other = (f(run.state, run.task) for f in (run.algorithm.personalized, run.algorithm.global_model))
    assert one.params is other.params


@pytest.mark.parametrize(
    "method",
    [
        {"name": "ifca", "K": 2},
        {"name": "cfl", "eps1": 9, "eps2": 0, "warmup": 0},
        {"name": "fl_hc", "at_round": 1, "n_clusters": 2},
    ],
)
def test_a_newcomer_gets_the_cluster_model_with_the_lowest_training_loss(method):
    run, others = trained(method, two_rules(), rounds=3), simulation("fedavg", two_rules((5, 7, 6)))
    found = run.algorithm.adapted(run.state, others.task.everyone(stream="newcomers"), others.task)
    models = matrices(run)
    assert len(models) > 1
    for client in range(3):
        best = np.argmin([training_loss(others, W, client) for W in models])
        np.testing.assert_array_equal(as_matrix(dict(found.params))[client], models[best])
