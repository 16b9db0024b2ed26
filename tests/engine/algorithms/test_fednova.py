"""FedNova: FedAvg where all clients take the same number of steps, and rounds computed with numpy where they do not."""

import numpy as np
import pytest
import torch

from engine.algorithms.fednova import path_lengths
from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    federation,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of


@pytest.mark.parametrize("training", [{}, {"momentum": 0.9, "weight_decay": 0.1}, {"batch_size": "full"}], ids=str)
def test_fednova_with_equal_steps_is_fedavg(training):
    found, fedavg = (trained(m, rounds=3, participation=0.75, **training) for m in ("fednova", "fedavg"))
    assert_close(shared_model(found), shared_model(fedavg), 1e-13)
    assert any("set local_epochs" in note for note in found.task.notes)
    assert not simulation("fednova", local_epochs=1).task.notes


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_path_is_as_long_as_its_gradients_count(momentum):
    """Gradients of 1: v <- momentum v + 1, and the path is the sum of v."""
    expected = []
    for steps in (1, 2, 5, 30):
        v = length = 0.0
        for _ in range(steps):
            v = momentum * v + 1
            length += v
        expected.append(length)
    np.testing.assert_allclose(path_lengths(torch.tensor([1.0, 2.0, 5.0, 30.0]).double(), momentum), expected)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_fednova_rounds_follow_the_paper(momentum):
    run = trained("fednova", rounds=2, participation=0.75, local_epochs=3, momentum=momentum)
    w = start_of(run)
    for round in (1, 2):
        directions, lengths, sizes = [], [], []
        for size, batches in zip(SIZES, batches_of(run, round), strict=True):
            if batches is None:
                continue
            local, v, length, count = w, 0.0, 0.0, 0.0
            for x, y in batches:
                v, count = momentum * v + reference.gradient(local, x, y), momentum * count + 1
                local, length = local - LR * v, length + count
            directions.append((local - w) / length)
            lengths.append(length)
            sizes.append(size)
        assert len(set(lengths)) > 1
        w = w + np.average(lengths, weights=sizes) * np.average(directions, axis=0, weights=sizes)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-12)


def test_small_steps_of_fednova_descend_the_pooled_loss_and_those_of_fedavg_do_not():
    """After an epoch of whole batches with a tiny rate, a client's mean gradient is that of all its samples."""
    sizes, lr = (2, 8, 4, 6), 1e-5
    setting = {"rounds": 1, "local_steps": None, "local_epochs": 1, "batch_size": 2, "lr": lr}
    run, fedavg = (trained(m, federation(sizes), **setting) for m in ("fednova", "fedavg"))
    start, steps = start_of(run), np.array(sizes) / 2
    pooled = [tuple(np.concatenate(part) for part in zip(*batches, strict=True)) for batches in batches_of(run, 1)]
    gradients = np.array([reference.gradient(start, x, y) for x, y in pooled])
    shares = np.array(sizes) / sum(sizes)
    direction = (start - as_matrix(shared_model(run))) / (lr * shares @ steps)
    np.testing.assert_allclose(direction, np.einsum("i,icf->cf", shares, gradients), atol=1e-4)
    biased = (start - as_matrix(shared_model(fedavg))) / lr
    np.testing.assert_allclose(biased, np.einsum("i,icf->cf", shares * steps, gradients), atol=1e-4)


def test_fednova_sends_one_number_more_than_fedavg_and_records_the_steps():
    fedavg, fednova = (list(simulation(m, local_epochs=1).rounds())[1].scalars for m in ("fedavg", "fednova"))
    assert fednova["bytes_up"] == fedavg["bytes_up"] + 8 * len(SIZES)
    assert fednova["bytes_down"] == fedavg["bytes_down"]
    steps = [-(-n // 4) for n in SIZES]
    assert fednova["diagnostics.effective_steps"] == pytest.approx(np.average(steps, weights=SIZES))


def test_a_newcomer_of_fednova_uses_the_global_model():
    run = trained("fednova", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
