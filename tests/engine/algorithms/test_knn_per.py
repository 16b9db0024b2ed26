"""kNN-Per: FedAvg's model, and votes of neighbors computed sample by sample."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from engine.algorithms import knn_per
from engine.algorithms.knn_per import votes_of
from engine.core.errors import InvalidConfig, Unsupported
from engine.task import Task
from engine.training.evaluate import evaluate
from tests.support import plain
from tests.support.builders import assert_equal, federation, shared_model, simulation, trained, with_newcomers
from tests.support.settings import DNN

EXACT = 1e-10


def with_validation():
    """A federation whose third client has no validation samples."""
    data = federation()
    given = federation(seed=3).test
    kept = torch.tensor([0, 1, 2, 3, 4, 5, 9, 10, 11])
    val = replace(given, rows=given.rows[kept], offsets=torch.tensor([0, 3, 6, 6, 9]))
    return replace(data, val=val)


def features_of(params, x: torch.Tensor) -> torch.Tensor:
    return plain.hidden(params, x) if "body.1.weight" in params else x


def probabilities(params, task: Task, client: int, x: torch.Tensor, k: int, lam: float, scale: float) -> torch.Tensor:
    """p for each sample, with a sorted list of neighbors."""
    own, labels = task.data.train.of_client(client)
    memory, found = features_of(params, own), []
    for f, logits in zip(features_of(params, x), task.model.logits(params, x), strict=True):
        distances = [float((f - m).norm()) for m in memory]
        nearest = sorted(range(len(memory)), key=lambda j: (distances[j], j))[:k]
        votes = torch.zeros(3, dtype=torch.float64)
        for j in nearest:
            votes[labels[j]] += np.exp(-(distances[j] ** 2) / (len(f) * scale))
        found.append(lam * votes / votes.sum() + (1 - lam) * logits.softmax(0))
    return torch.stack(found)


def predicted(run, client: int, x: torch.Tensor) -> torch.Tensor:
    predictor = run.algorithm.personalized(run.state, run.task)
    return predictor.forward(predictor.of_client(client), x).exp()


@pytest.mark.parametrize("model", ["mlr", DNN], ids=["mlr", "dnn"])
@pytest.mark.parametrize("k", [1, 3, 5])  # one client has 4 samples
def test_the_nearest_neighbors_vote(model, k):
    run = trained({"name": "knn_per", "k": k, "lam": 0.7, "scale": 0.3}, model=model)
    for client in range(4):
        x, _ = run.task.data.test.of_client(client)
        expected = probabilities(run.state.global_params, run.task, client, x, k, 0.7, 0.3)
        torch.testing.assert_close(predicted(run, client, x), expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_the_global_model_is_fedavgs_and_without_votes_the_personalized_one_too(lam):
    run = trained({"name": "knn_per", "lam": lam}, model=DNN, participation=0.75)
    ordinary = trained("fedavg", model=DNN, participation=0.75)
    assert_equal(shared_model(run), shared_model(ordinary))
    ours, theirs = (
        evaluate(r.task, r.algorithm.personalized(r.state, r.task), r.task.data.test) for r in (run, ordinary)
    )
    is_equal = np.allclose(ours[1], theirs[1], rtol=1e-10)
    assert is_equal == (lam == 0) and (lam or np.array_equal(ours[0], theirs[0]))
    assert any("this is fedavg" in note for note in run.task.notes) == (lam == 0)


def test_the_nearest_neighbor_of_a_stored_sample_is_itself():
    run = trained({"name": "knn_per", "lam": 1, "k": 1})
    accuracy, _ = evaluate(run.task, run.algorithm.personalized(run.state, run.task), run.task.data.train)
    assert accuracy.tolist() == [1, 1, 1, 1]


def test_with_all_neighbors_alike_the_votes_are_the_class_frequencies():
    run = trained({"name": "knn_per", "lam": 1, "k": 100, "scale": 1e6}, model=DNN)
    counts = run.task.data.class_counts.double()
    for client in range(4):
        x, _ = run.task.data.test.of_client(client)
        expected = (counts[client] / counts[client].sum()).expand(3, 3)
        torch.testing.assert_close(predicted(run, client, x), expected, rtol=0, atol=1e-4)


def test_longer_features_with_a_wider_kernel_change_nothing():
    a, memory = drawn(5), drawn(7, seed=1)
    stored = torch.ones(7, dtype=torch.bool)
    expected = votes_of(a, memory, stored, 3, 0.5)
    torch.testing.assert_close(votes_of(9 * a, 9 * memory, stored, 3, 0.5 * 81), expected)
    assert (expected > 0).sum(1).tolist() == [3] * 5


def drawn(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_of_equal_distances_the_first_samples_are_taken():
    memory = torch.tensor([[3.0, 0], [0, 1], [1, 1e-12], [-1, 0], [0, -1]], dtype=torch.float64)
    stored = torch.tensor([True, True, True, True, False])
    votes = votes_of(torch.tensor([[1e-12, 0.0], [1.0, 1.0]], dtype=torch.float64), memory, stored, 2, 1.0)
    assert votes[1].tolist() == [0, pytest.approx(0.5), pytest.approx(0.5), 0, 0]
    dead = votes_of(memory[:1] * 0, memory[[1, 1, 1, 1, 1]] * 0, stored, 2, 1.0)
    assert dead.tolist() == [[0.5, 0.5, 0, 0, 0]]


def test_padding_never_votes():
    stored = torch.arange(7) < 2
    votes = votes_of(drawn(5), drawn(7, seed=1), stored, 4, 1.0)
    torch.testing.assert_close(votes[:, :2].sum(1), torch.ones(5, dtype=torch.float64))
    assert votes[:, 2:].eq(0).all()


def test_many_samples_are_compared_in_pieces(monkeypatch):
    run = trained("knn_per", model=DNN)
    x, _ = run.task.data.test.of_client(1)
    whole = predicted(run, 1, x)
    monkeypatch.setattr(knn_per, "PAIRS", 1)
    torch.testing.assert_close(predicted(run, 1, x), whole)


def test_poisoned_labels_stay_with_their_samples_in_a_limited_memory():
    run = trained({"name": "knn_per", "capacity": 5})
    train = run.task.data.train
    labels = torch.arange(train.num_samples)  # each sample has its own
    task = replace(run.task, data=replace(run.task.data, train=replace(train, relabeled=labels)))
    found = run.algorithm.personalized(run.state, task)
    for client, size in enumerate((5, 5, 4, 5)):
        stored = found.of_client(client)
        torch.testing.assert_close(train.features(stored["memory_labels"][:size].long()), stored["memory"][:size])


def test_a_capacity_limits_the_memory_to_some_of_the_clients_samples():
    run = trained({"name": "knn_per", "capacity": 5})
    predictor = run.algorithm.personalized(run.state, run.task)
    assert predictor.params["memory"].shape == (4, 5, 5)
    for client, size in enumerate((5, 5, 4, 5)):
        x, y = run.task.data.train.of_client(client)
        own, labels = predictor.of_client(client)["memory"], predictor.of_client(client)["memory_labels"]
        match = torch.cdist(own[:size], x).argmin(1)
        assert match.tolist() == sorted(set(match.tolist()))
        torch.testing.assert_close(x[match], own[:size])
        assert labels.tolist() == [*y[match].tolist(), *([-1] * (5 - size))]
    again = run.algorithm.personalized(run.state, run.task)
    assert torch.equal(again.params["memory"], predictor.params["memory"])


def test_auto_takes_the_best_share_on_each_clients_validation_samples():
    data = with_validation()
    run = trained({"name": "knn_per", "lam": "auto", "k": 3}, data, model=DNN, rounds=4)
    found = run.algorithm.personalized(run.state, run.task).params["lam"]
    for client in (0, 1, 3):
        x, y = data.val.of_client(client)
        losses = [
            float(F.nll_loss(probabilities(run.state.global_params, run.task, client, x, 3, step / 10, 1.0).log(), y))
            for step in range(11)
        ]
        assert float(found[client]) == pytest.approx(int(np.argmin(losses)) / 10)
    assert float(found[2]) == 0.5 and len(set(found.tolist())) > 2


def test_auto_without_validation_samples_is_refused():
    with pytest.raises(Unsupported, match=r"set partition\.val_fraction, for instance 0\.1"):
        simulation({"name": "knn_per", "lam": "auto"})


def test_newcomers_vote_with_their_own_samples():
    run = trained({"name": "knn_per", "k": 2, "lam": 0.4}, with_newcomers(), model=DNN)
    task = run.task.of_unseen()
    predictor = run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task)
    for client in range(3):
        x, _ = task.data.test.of_client(client)
        expected = probabilities(run.state.global_params, task, client, x, 2, 0.4, 1.0)
        found = predictor.forward(predictor.of_client(client), x).exp()
        torch.testing.assert_close(found, expected, rtol=EXACT, atol=EXACT)


def test_everything_that_a_predictor_carries_is_floating_point():
    run = trained("knn_per", model=DNN)
    params = run.algorithm.personalized(run.state, run.task).params
    assert {p.dtype for p in params.values()} == {torch.float64}


def test_notes_name_large_memories_and_models_without_a_body(monkeypatch):
    assert simulation("knn_per", model=DNN).task.notes == []
    monkeypatch.setattr(knn_per, "LARGE_BYTES", 8 * 4 * 9 * 5 - 1)
    notes = simulation("knn_per").task.notes
    assert any("those of the inputs" in note for note in notes) and any("lower capacity" in note for note in notes)
    assert not any("capacity" in note for note in simulation({"name": "knn_per", "capacity": 8}).task.notes)


def test_a_share_beyond_one_is_refused():
    with pytest.raises(InvalidConfig, match=r"lam: 1\.5: should be less than or equal to 1"):
        simulation({"name": "knn_per", "lam": 1.5})
