"""Clipping: each client's gradient is limited in norm, and other terms are unchanged."""

import dataclasses

import numpy as np
import pytest
import torch

from engine.backends.batched import Batched
from engine.backends.clipped import Clipped
from engine.backends.fused import Fused
from engine.backends.loop import Loop
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    trained,
    unchecked_simulation,
)
from tests.support.networks import batch_of, model_of, stacked
from tests.support.reference import as_matrix, batches_of
from tests.support.settings import DNN, PFEDME


def clipped(gradient: np.ndarray, norm: float) -> np.ndarray:
    return gradient * min(1, norm / np.linalg.norm(gradient))


def test_a_clipped_step_is_as_long_as_the_norm_allows():
    run = trained("local_train", rounds=1, local_steps=3, clip_norm=0.05)
    start = as_matrix(run.task.initial_model())
    for i, batches in enumerate(batches_of(run, 1)):
        W = start
        for x, y in batches:
            assert np.linalg.norm(reference.gradient(W, x, y)) > 0.05  # otherwise the test is void
            W = W - 0.1 * clipped(reference.gradient(W, x, y), 0.05)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], W, atol=1e-12)


@pytest.mark.parametrize("method", ["fedavg", {"name": "ditto", "lam": 0.5}, PFEDME])
def test_a_norm_above_all_gradients_changes_nothing(method):
    assert_close(personalized(trained(method, clip_norm=1e6)), personalized(trained(method)), 1e-13)


def test_a_norm_beyond_single_precision_changes_nothing():
    data = federation(dtype=torch.float32)
    clipped_run = unchecked_simulation("fedavg", data, training={"clip_norm": 1e300}, dtype="float32")
    assert len(list(clipped_run.rounds())) == 3
    plain = trained("fedavg", data, dtype="float32")
    assert_close(shared_model(clipped_run), shared_model(plain), 1e-6)


def test_each_clients_gradient_is_clipped_separately():
    model = model_of("mlr")
    params, batch = stacked(model, 2), batch_of((4, 4))
    batch = dataclasses.replace(batch, x=batch.x * torch.tensor([1e-3, 10.0])[:, None, None])
    plain, out = ({n: torch.zeros_like(p) for n, p in params.items()} for _ in range(2))
    Batched(model).accumulate(plain, params, batch, 1.0, 0.0)
    Clipped(Batched(model), 1.5).accumulate(out, params, batch, 1.0, 0.0)
    assert_equal({n: g[:1] for n, g in out.items()}, {n: g[:1] for n, g in plain.items()})
    assert torch.cat([g[1].flatten() for g in out.values()]).norm() == pytest.approx(1.5)


def test_the_norm_covers_the_trained_parameters():
    model = model_of("dnn", hidden=4)
    params, batch = stacked(model, 1), batch_of((4,))
    out = {n: torch.zeros_like(params[n]) for n in model.head}
    Clipped(Loop(model), 1e-3).accumulate(out, params, batch, 1.0, 0.0)
    assert torch.cat([g.flatten() for g in out.values()]).norm() == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("method", "model"), [("fedavg", "mlr"), ("fedavg", DNN), ({"name": "ditto", "lam": 0.5}, "mlr"), (PFEDME, DNN)]
)
def test_clipping_agrees_between_backends_and_chunks(method, model, monkeypatch):
    options = {"model": model, "clip_norm": 0.05, "momentum": 0.5, "local_epochs": 2, "participation": 0.75}
    expected = personalized(trained(method, backend="loop", **options))
    assert_close(personalized(trained(method, backend="batched", **options)), expected, 1e-10)
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 2)  # chunks of two clients and of one
    assert_close(personalized(trained(method, backend="fused", **options)), expected, 1e-10)


def test_the_pull_of_a_proximal_term_is_not_clipped():
    run = trained({"name": "fedprox", "mu": 0.7}, rounds=1, clip_norm=0.05)
    start, ends = as_matrix(run.task.initial_model()), []
    for batches in batches_of(run, 1):
        W = start
        for x, y in batches:
            W = W - 0.1 * (clipped(reference.gradient(W, x, y), 0.05) + 0.7 * (W - start))
        ends.append(W)
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.average(ends, axis=0, weights=SIZES), atol=1e-12)


def test_the_inner_steps_of_pfedme_are_clipped():
    run = trained(PFEDME, rounds=1, clip_norm=0.05)
    start = as_matrix(run.task.initial_model())
    for i, batches in enumerate(batches_of(run, 1)):
        theta, w = start, start
        for x, y in batches:
            for _ in range(3):
                theta = theta - 0.1 * (clipped(reference.gradient(theta, x, y), 0.05) + 5 * (theta - w))
            w = w - 0.1 * 5 * (w - theta)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], theta, atol=1e-12)
