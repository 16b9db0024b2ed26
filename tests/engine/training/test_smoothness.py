"""The smoothness of linear models."""

import numpy as np
import pytest

from engine.training import smoothness as module
from engine.training.smoothness import note_if_unstable, smoothness
from tests.support.builders import federation, simulation


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


@pytest.mark.parametrize(("model", "classes"), [("mlr", 3), ("logistic", 2)])
def test_a_learning_rate_is_reported_exactly_where_it_is_above_two_by_the_smoothness(model: str, classes: int):
    task = simulation("local_train", federation(classes=classes), model={"name": model, "l2": 0.1}).task
    lam = 0.5
    limit = 2 / (smoothness(task) + lam)
    for lr, reported in ((limit / 100, False), (limit * 0.999, False), (limit * 1.001, True), (limit * 100, True)):
        task.notes.clear()
        note_if_unstable(task, lr, lam)
        assert bool(task.notes) == reported, lr


def test_most_learning_rates_are_known_to_be_stable_without_power_iteration(monkeypatch):
    task = simulation("local_train", model={"name": "mlr"}).task
    monkeypatch.setattr(module, "_POWER_STEPS", None)  # iterating would raise TypeError
    note_if_unstable(task, 1e-3, 0.5)
    with pytest.raises(TypeError):
        note_if_unstable(task, 1e3, 0.5)
