"""TERM: its limits, and rounds computed without the engine."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of
from tests.support.settings import VARIED_TRAINING


def term(t):
    return {"name": "term", "t": t}


def losses_of(run, w) -> np.ndarray:
    data = [run.task.data.train.of_client(i) for i in range(run.task.num_clients)]
    return np.array([reference.loss(w, x.numpy(), y.numpy()) for x, y in data])


@pytest.mark.parametrize("training", VARIED_TRAINING, ids=str)
def test_term_without_tilt_is_fedavg(training):
    found = trained(term(0), rounds=3, **training)
    assert_close(shared_model(found), shared_model(trained("fedavg", rounds=3, **training)), 1e-13)
    assert any("the same as fedavg" in note for note in found.task.notes)


@pytest.mark.parametrize(("t", "chosen"), [(1e6, np.argmax), (-1e6, np.argmin)])
def test_a_huge_tilt_takes_the_model_of_the_worst_or_best_client(t, chosen):
    run = trained(term(t), rounds=1)
    start = start_of(run)
    client = chosen(losses_of(run, start))
    expected = reference.sgd(start, batches_of(run, 1)[client], LR)
    np.testing.assert_allclose(as_matrix(shared_model(run)), expected, atol=1e-12)


@pytest.mark.parametrize("t", [-2.0, 0.5, 3.0])
def test_one_full_step_descends_the_tilted_loss(t):
    run = trained(term(t), rounds=1, local_steps=1, batch_size="full")
    W = torch.from_numpy(start_of(run)).requires_grad_()
    weighted = []
    for i, size in enumerate(SIZES):
        x, y = run.task.data.train.of_client(i)
        weighted.append(np.log(size / sum(SIZES)) + t * F.cross_entropy(x @ W[:, :-1].T + W[:, -1], y))
    (torch.stack(weighted).logsumexp(0) / t).backward()
    np.testing.assert_allclose(as_matrix(shared_model(run)), (W - LR * W.grad).detach(), atol=1e-12)


def test_term_rounds_follow_the_paper():
    run = trained(term(2.0), rounds=3, participation=0.75)
    w = start_of(run)
    for round in (1, 2, 3):
        losses, batches = losses_of(run, w), batches_of(run, round)
        inside = [i for i, b in enumerate(batches) if b is not None]
        copies = [reference.sgd(w, batches[i], LR) for i in inside]
        w = np.average(copies, axis=0, weights=[SIZES[i] * np.exp(2 * losses[i]) for i in inside])
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-12)


def test_term_records_losses_and_weights_of_the_participants():
    run = simulation("term", rounds=1, participation=0.5)
    last = list(run.rounds())[-1]
    inside = last.cohort.tolist()
    losses = losses_of(run, start_of(run))[inside]
    raw = np.array([SIZES[i] for i in inside]) * np.exp(losses)
    np.testing.assert_allclose(last.arrays["diagnostics.losses"][inside], losses)
    np.testing.assert_allclose(last.arrays["diagnostics.weights"][inside], raw / raw.sum())
    outside = [i for i in range(len(SIZES)) if i not in inside]
    assert np.isnan(last.arrays["diagnostics.weights"][outside]).all()


def test_a_newcomer_of_term_uses_the_global_model():
    run = trained("term", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
