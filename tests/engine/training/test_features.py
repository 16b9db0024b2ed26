"""Features of the clients' samples, and their statistics by client and class."""

from dataclasses import replace

import pytest
import torch

from engine.core.params import broadcast
from engine.training import evaluate
from engine.training.features import (
    Features,
    shared_features,
    stacked_features,
    training_features_by_class,
)
from tests.support import plain
from tests.support.builders import federation, simulation, trained
from tests.support.settings import DNN

COHORT = torch.tensor([2, 0, 3])


def drawn(task) -> dict[str, torch.Tensor]:
    """A model for each client of the cohort."""
    models = trained("local_train", model=DNN).state.personal_params
    return {n: p[COHORT] for n, p in models.items()}


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
@pytest.mark.parametrize("slab", [1, 10**6])
def test_features_are_those_of_each_clients_body_client_by_client(monkeypatch, backend, slab):
    monkeypatch.setattr(evaluate, "_SLAB_BYTES", slab)
    task = simulation("fedavg", model=DNN, backend=backend).task
    models = drawn(task)
    found = stacked_features(task, models, task.data.train, COHORT)
    samples = [task.data.train.of_client(i) for i in COHORT.tolist()]
    expected = [plain.hidden({n: p[s] for n, p in models.items()}, x) for s, (x, _) in enumerate(samples)]
    torch.testing.assert_close(found.values, torch.cat(expected))
    assert torch.equal(found.labels, torch.cat([y for _, y in samples]))
    assert found.owner.tolist() == [0] * 4 + [1] * 6 + [2] * 7 and found.sizes.tolist() == [4, 6, 7]


@pytest.mark.parametrize("slab", [1, 10**6])
def test_one_body_and_stacked_copies_of_it_have_the_same_features(monkeypatch, slab):
    monkeypatch.setattr(evaluate, "_SLAB_BYTES", slab)
    task = simulation("fedavg", model=DNN).task
    model = task.initial_model()
    one = shared_features(task, model, task.data.train, COHORT)
    copies = stacked_features(task, broadcast(model, 3), task.data.train, COHORT)
    torch.testing.assert_close(one.values, copies.values)
    assert torch.equal(one.labels, copies.labels) and torch.equal(one.owner, copies.owner)


def test_a_selection_of_the_rows_is_data_too():
    task = simulation("fedavg", model=DNN).task
    train = task.data.train
    first_two = torch.cat([start + torch.arange(2) for start in train.offsets[:-1]])
    chosen = replace(train, rows=train.rows[first_two], offsets=torch.arange(0, 9, 2))
    found = shared_features(task, task.initial_model(), chosen, COHORT)
    expected = torch.cat([train.of_client(i)[0][:2] for i in COHORT.tolist()])
    torch.testing.assert_close(found.values, plain.hidden(task.initial_model(), expected))
    assert found.sizes.tolist() == [2, 2, 2]


def test_clients_without_samples_have_no_features():
    task = simulation("fedavg", model=DNN).task
    none = stacked_features(task, broadcast(task.initial_model(), 3), task.data.val, COHORT)
    assert none.values.shape == (0, 6) and none.class_counts.tolist() == [[0, 0, 0]] * 3
    assert none.scatter(none.class_means).eq(0).all() and none.scatter(none.class_means).shape == (3, 6, 6)


@pytest.mark.parametrize("model", ["mlr", DNN])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_by_class_are_equal_whether_inputs_are_summed_once_or_not(monkeypatch, model, dtype):
    task = simulation("fedavg", federation(dtype=getattr(torch, dtype)), model=model, dtype=dtype).task
    models = broadcast(task.initial_model(), 3)
    found = training_features_by_class(task, models, COHORT)
    assert ("input_sums" in task.data.__dict__) == (model == "mlr")
    monkeypatch.setattr("engine.training.features.REMEMBERED_BYTES", 0)
    expected = training_features_by_class(task, models, COHORT)
    assert torch.equal(found.sums, expected.sums) and torch.equal(found.counts, expected.counts)
    assert found.counts.sum(1).tolist() == [4, 6, 7] and torch.equal(found.means, expected.means)


def test_the_width_is_that_of_the_last_hidden_layer():
    assert simulation("fedavg", model=DNN).task.feature_width == 6
    assert simulation("fedavg", model="mlr").task.feature_width == 5


def test_sums_means_and_scatter_are_by_client_and_class():
    values = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0], [0.0, 2.0]], dtype=torch.float64)
    found = Features(values, torch.tensor([1, 1, 0, 1]), torch.tensor([0, 0, 0, 2]), num_clients=3, num_classes=2)
    assert found.sizes.tolist() == [3, 0, 1]
    assert found.class_counts.tolist() == [[1, 2], [0, 0], [0, 1]]
    assert found.class_sums.tolist() == [[[5, 5], [4, 2]], [[0, 0], [0, 0]], [[0, 0], [0, 2]]]
    assert found.class_means.tolist() == [[[5, 5], [2, 1]], [[0, 0], [0, 0]], [[0, 0], [0, 2]]]
    assert found.total(values.square().sum(1)).tolist() == [64, 0, 4]
    assert found.total(values).tolist() == [[9, 7], [0, 0], [0, 2]]
    around_means = [[[2, 2], [2, 2]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]  # (-1, -1) and (1, 1) of class 1 alone
    assert found.scatter(found.class_means).tolist() == around_means
    assert found.scatter(torch.zeros(3, 2, 2, dtype=torch.float64))[0].tolist() == [[35, 31], [31, 29]]
