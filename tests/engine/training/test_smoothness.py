"""The smoothness of linear models."""

import numpy as np
import pytest

from engine.training import smoothness as module
from engine.training.smoothness import smoothness
from tests.support.builders import simulation


def test_smoothness_is_the_largest_curvature_over_clients():
    run = simulation("local_train", model={"name": "mlr", "l2": 0.1})
    largest = 0.0
    for i in range(run.task.num_clients):
        x = run.task.data.train.of_client(i)[0].numpy()
        x = np.c_[x, np.ones(len(x))]
        largest = max(largest, np.linalg.eigvalsh(x.T @ x / len(x))[-1])
    assert smoothness(run.task) == pytest.approx(largest / 2 + 0.1, rel=1e-4)


def test_of_many_clients_a_sample_is_used(monkeypatch):
    whole = smoothness(simulation("local_train").task)
    monkeypatch.setattr(module, "_MOST_CLIENTS", 1)
    found = {smoothness(simulation("local_train", seed=seed).task) for seed in range(8)}
    assert len(found) > 1 and max(found) == whole
