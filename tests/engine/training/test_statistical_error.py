"""Distances to the true models of generated data, and the joint minimizer."""

import numpy as np
import pytest
import torch

from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation
from engine.training import statistical_error
from tests.support import reference
from tests.support.builders import simulation


def test_joint_minimizer_has_zero_gradient():
    run, lam = simulation("local_train", model={"name": "mlr", "l2": 0.05}), 0.3
    solved = statistical_error.solve(run.task, lam)
    for i in range(run.task.num_clients):
        x, y = run.task.data.train.of_client(i)
        own = solved.local[i]
        W = np.c_[own[:15].view(3, 5).numpy(), own[15:].numpy()]
        slope = reference.gradient(W, x.numpy(), y.numpy()) + 0.05 * np.c_[W[:, :5], np.zeros(3)]
        pull = lam * (own - solved.shared)
        np.testing.assert_allclose(slope, -np.c_[pull[:15].view(3, 5).numpy(), pull[15:].numpy()], atol=1e-8)
    torch.testing.assert_close(solved.shared, solved.local.mean(0))


def test_clients_with_one_true_model_have_no_heterogeneity():
    assert statistical_error.heterogeneity(torch.full((10, 3), 0.1, dtype=torch.float64)) == 0.0


def synthetic(partition="natural", **changed):
    raw = {
        "dataset": {"name": "synthetic", "samples_per_client": 40},
        "partition": partition,
        "model": "logistic",
        "training": {"rounds": 1, "dtype": "float64"},
        "algorithms": ["fedavg", "local_train"],
    }
    return [Simulation(c) for c in parse_experiment(raw | changed).runs()]


def test_total_error_is_recorded_if_true_models_are_known():
    fedavg, local = synthetic()
    result = list(fedavg.rounds())[-1]
    statistical_error = fedavg.task.data.truth["weights"]
    w = fedavg.state.global_params["head.weight"][0].numpy()
    np.testing.assert_allclose(result.arrays["global.total_error"], ((w - statistical_error.mean(0)) ** 2).sum())
    np.testing.assert_allclose(result.arrays["personalized.total_error"], ((w - statistical_error) ** 2).sum(1))
    own = list(local.rounds())[-1].arrays["personalized.total_error"]
    w = local.state.personal_params["head.weight"][:, 0].numpy()
    np.testing.assert_allclose(own, ((w - statistical_error) ** 2).sum(1))


@pytest.mark.parametrize("clients", [10, 20])
def test_mixed_clients_have_no_true_models(clients):
    fedavg, _ = synthetic({"name": "iid", "num_clients": clients})
    assert fedavg.task.data.truth is None
    assert "global.total_error" not in list(fedavg.rounds())[-1].arrays
