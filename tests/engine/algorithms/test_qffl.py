"""q-FFL: its limits, and rounds computed with numpy."""

import numpy as np
import pytest

from engine.core.errors import InvalidConfig
from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    config,
    federation,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of
from tests.support.settings import VARIED_TRAINING


def qffl(q):
    return {"name": "qffl", "q": q}


def data_of(run) -> list:
    """(x, y) of every client."""
    train = run.task.data.train
    return [tuple(part.numpy() for part in train.of_client(i)) for i in range(run.task.num_clients)]


@pytest.mark.parametrize("training", VARIED_TRAINING, ids=str)
def test_qffl_with_q_zero_is_fedavg(training):
    found = trained(qffl(0), rounds=3, **training)
    assert_close(shared_model(found), shared_model(trained("fedavg", rounds=3, **training)), 1e-13)
    assert any("the same as fedavg" in note for note in found.task.notes)


@pytest.mark.parametrize("q", [0.3, 1.0, 4.0])
def test_a_qffl_round_of_one_full_step_is_a_scaled_gradient_step(q):
    run = trained(qffl(q), rounds=1, local_steps=1, batch_size="full")
    w = start_of(run)
    upper = lower = 0.0
    for share, (x, y) in zip(np.array(SIZES) / sum(SIZES), data_of(run), strict=True):
        F, g = reference.loss(w, x, y) + 1e-10, reference.gradient(w, x, y)
        upper = upper + share * F**q * g
        lower += share * (q * F ** (q - 1) * np.square(g).sum() + F**q / LR)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w - upper / lower, atol=1e-12)


def test_one_client_of_qffl_takes_a_shorter_step():
    run = trained(qffl(2.0), federation((6,)), rounds=1, local_steps=1, batch_size="full")
    w, (x, y) = start_of(run), data_of(run)[0]
    g, F = reference.gradient(w, x, y), reference.loss(w, x, y)
    step = LR / (1 + LR * 2.0 * np.square(g).sum() / F)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w - step * g, atol=1e-9)


def test_qffl_rounds_follow_the_paper_at_the_rate_of_the_round():
    setting = {"rounds": 3, "participation": 0.75, "lr_schedule": "step", "lr_decay_rounds": 1, "lr_decay": 0.5}
    run = trained(qffl(1.5), **setting)
    w = start_of(run)
    for round, lr in ((1, LR), (2, LR / 2), (3, LR / 4)):
        upper = lower = 0.0
        for size, batches, (x, y) in zip(SIZES, batches_of(run, round), data_of(run), strict=True):
            if batches is not None:
                F = reference.loss(w, x, y) + 1e-10
                d = (w - reference.sgd(w, batches, lr)) / lr
                upper = upper + size * F**1.5 * d
                lower += size * (1.5 * F**0.5 * np.square(d).sum() + F**1.5 / lr)
        w = w - upper / lower
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-12)


def test_a_huge_q_follows_the_worst_client_without_overflow():
    run = trained(qffl(1000.0), rounds=1)
    worst = np.argmax([reference.loss(start_of(run), x, y) for x, y in data_of(run)])
    change = as_matrix(shared_model(run)) - start_of(run)
    alone = reference.sgd(start_of(run), batches_of(run, 1)[worst], LR) - start_of(run)
    cosine = (change * alone).sum() / np.linalg.norm(change) / np.linalg.norm(alone)
    assert cosine == pytest.approx(1, abs=1e-6)


def test_qffl_records_losses_and_weights_of_the_participants():
    run = simulation(qffl(1.0), rounds=1, participation=0.5)
    last = list(run.rounds())[-1]
    losses, weights = (last.arrays[f"diagnostics.{n}"] for n in ("losses", "weights"))
    inside = last.cohort.tolist()
    assert np.flatnonzero(~np.isnan(losses)).tolist() == sorted(inside)
    expected = {i: reference.loss(start_of(run), *data_of(run)[i]) for i in inside}
    np.testing.assert_allclose([losses[i] for i in inside], list(expected.values()))
    raw = np.array([SIZES[i] * expected[i] for i in inside])
    np.testing.assert_allclose([weights[i] for i in inside], raw / raw.sum(), rtol=1e-8)
    fedavg = list(simulation("fedavg", rounds=1, participation=0.5).rounds())[-1]
    assert last.scalars["bytes_up"] == fedavg.scalars["bytes_up"] + 8 * len(inside)


def test_qffl_refuses_a_negative_q():
    with pytest.raises(InvalidConfig, match=r"\bq: -1"):
        config(qffl(-1))


def test_a_newcomer_of_qffl_uses_the_global_model():
    run = trained("qffl", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
