"""The estimate R-hat of heterogeneity from models trained alone."""

import pytest

from engine.training import heterogeneity
from tests.support.builders import federation, simulation, trained


def test_clients_with_the_same_data_and_batches_have_no_heterogeneity():
    task = simulation("fedavg", federation((6,)), batch_size="full").task
    assert heterogeneity.estimate(task)[0] == 0


def test_r_hat_is_the_largest_distance_of_models_trained_alone_from_their_mean():
    models = trained("local_train", batch_size="full", rounds=1, local_steps=30).state.personal_params
    distances = [sum(((p - p.mean(0))[i] ** 2).sum() for p in models.values()) ** 0.5 for i in range(4)]
    found, cost = heterogeneity.estimate(simulation("fedavg", batch_size="full").task, steps=30)
    assert found == pytest.approx(float(max(distances)))
    assert cost == 30 * 26  # samples of all clients
