"""Steps of SGD with a proximal term: one strength for all clients, or one for each."""

import numpy as np
import pytest
import torch

from engine.backends.batched import live_chunk
from engine.backends.fused import Fused
from engine.core.params import broadcast, gather, map_params
from engine.training.local import SGD, even, local_sgd
from tests.support import reference
from tests.support.builders import LR, SIZES, assert_close, federation, simulation, trained
from tests.support.reference import as_matrix, steps_of
from tests.support.settings import DNN, VARIED_TRAINING


def with_prox(lam, drift=False, **settings):
    """The cohort's models after local training toward zero models; the drift is 0.3 in every coordinate."""
    task = simulation("fedavg", **settings).task
    cohort = task.cohort(1)
    start = broadcast(task.initial_model(), cohort.size)
    toward = map_params(torch.zeros_like, start)
    terms = {"drift": map_params(lambda p: torch.full_like(p, 0.3), start)} if drift else {}
    strength = lam[cohort.clients] if isinstance(lam, torch.Tensor) else lam
    trained = local_sgd(task, start, cohort, SGD.of(task, prox=(strength, toward), **terms))
    return task, cohort, trained.params


@pytest.mark.parametrize("training", VARIED_TRAINING, ids=str)
@pytest.mark.parametrize("drift", [False, True])
def test_equal_strengths_for_each_client_equal_one_number(training, drift):
    for settings in (training, {"model": DNN, "clip_norm": 0.5} | {k: v for k, v in training.items() if k != "model"}):
        one = with_prox(0.7, drift, **settings)[2]
        each = with_prox(torch.full((len(SIZES),), 0.7, dtype=torch.float64), drift, **settings)[2]
        assert_close(each, one, 1e-12)


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
@pytest.mark.parametrize("training", [{}, {"local_epochs": 2}], ids=["steps", "epochs"])
def test_each_client_is_pulled_with_its_own_strength(backend, training, monkeypatch):
    monkeypatch.setattr("engine.backends.fused.Fused.chunk_size", lambda *_: 3)
    strengths = torch.tensor([0.0, 0.5, 2.0, 1.0], dtype=torch.float64)
    task, cohort, params = with_prox(strengths, drift=True, backend=backend, **training)
    expected = []
    for i in cohort.clients.tolist():
        W = as_matrix(task.initial_model())
        for x, y in steps_of(task, cohort)[i]:
            W = W - LR * (reference.gradient(W, x, y) + float(strengths[i]) * W + 0.3)
        expected.append(W)
    np.testing.assert_allclose(as_matrix(params), expected, atol=1e-12)


def test_strengths_by_client_also_pull_a_part_of_the_parameters():
    task = simulation("fedavg").task
    cohort = task.cohort(1)
    start = broadcast(task.initial_model(), cohort.size)
    strengths = torch.full((cohort.size,), 0.7, dtype=torch.float64)
    anchor = map_params(torch.zeros_like, start)
    found, expected = (
        local_sgd(task, start, cohort, SGD.of(task, prox=(lam, anchor)), trained=["head.bias"])
        for lam in (strengths, 0.7)
    )
    assert_close(found.params, expected.params, 1e-12)
    assert torch.equal(found.params["head.weight"], gather(start, torch.arange(cohort.size))["head.weight"])


def test_chunks_are_about_equal(monkeypatch):
    assert [even(20, most) for most in (16, 20, 30, 7, 1)] == [10, 20, 20, 7, 1]
    assert even(0, 16) == 0
    sizes, accumulate = [], Fused.accumulate

    def noted(self, out, params, batch, *args):
        sizes.append(batch.size)
        return accumulate(self, out, params, batch, *args)

    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 4)
    monkeypatch.setattr(Fused, "accumulate", noted)
    trained("fedavg", federation((6,) * 5), local_steps=1, batch_size="full", rounds=1)
    assert sizes == [3, 2]


def test_after_a_chunk_that_does_not_fit_the_others_are_about_equal(monkeypatch):
    sizes, accumulate = [], Fused.accumulate

    def limited(self, out, params, batch, *args):
        sizes.append(batch.size)
        if batch.size > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return accumulate(self, out, params, batch, *args)

    monkeypatch.setattr(Fused, "accumulate", limited)
    trained("fedavg", federation((6,) * 9), local_steps=1, batch_size="full", rounds=1)
    assert sizes == [9, 3, 3, 3]


def test_clients_with_several_models_train_in_smaller_chunks(monkeypatch):
    beside, original = dict[str, int](), Fused.chunk_size

    def chunk_size(self, model, batch_bytes, device, of_client=0):
        beside[method] = of_client
        return original(self, model, batch_bytes, device, of_client)

    monkeypatch.setattr(Fused, "chunk_size", chunk_size)
    for method in ("fedavg", "apfl", "scaffold"):
        task = trained(method).task
    size = 8 * task.model.num_parameters
    assert beside == {"fedavg": 0, "apfl": size + 8, "scaffold": size}  # v and alpha; the drift
    assert live_chunk(task.model, 100, task.device, 2**20) == 12 * 2**20 // (
        2**20 + 12 * task.model.num_parameters + 200
    )
