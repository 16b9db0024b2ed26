"""APFL: its limits in alpha, and rounds computed with numpy."""

import numpy as np
import pytest

from tests.support import reference
from tests.support.builders import (
    LR,
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import Model, as_matrix, batches_of, newcomers_of, start_of


@pytest.mark.parametrize("entry", [{}, {"alpha": 0.0}, {"alpha": 1.0, "adaptive": False}], ids=str)
def test_apfls_global_model_is_fedavgs_for_any_mixing_shares(entry):
    run = trained({"name": "apfl"} | entry, participation=0.75, momentum=0.5, weight_decay=0.01)
    assert_equal(
        shared_model(run), shared_model(trained("fedavg", participation=0.75, momentum=0.5, weight_decay=0.01))
    )


@pytest.mark.parametrize("training", [{}, {"momentum": 0.5, "weight_decay": 0.01}], ids=["plain", "momentum"])
@pytest.mark.slow
def test_apfl_with_personal_models_alone_is_local_training(training):
    run = trained({"name": "apfl", "alpha": 1, "adaptive": False}, **training)
    assert_close(personalized(run), personalized(trained("local_train", **training)), 1e-12)


def test_apfl_with_zero_shares_uses_the_local_copies():
    run = trained({"name": "apfl", "alpha": 0, "adaptive": False}, rounds=1)
    assert_equal(run.state.personal_params, run.task.initial_clients())
    copies = [reference.sgd(start_of(run), b, LR) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(personalized(run)), copies, atol=1e-12)


def mixed_steps(w: Model, v: Model, a: float, batches: list, alpha_lr: float) -> tuple[Model, Model, float, float]:
    """(w_i, v_i, a_i, mean loss) after one participation, each computed from the values before the step."""
    losses = []
    for x, y in batches:
        mixture = a * v + (1 - a) * w
        slope = reference.gradient(mixture, x, y)
        losses.append(reference.loss(mixture, x, y))
        w, v, a = (
            w - LR * reference.gradient(w, x, y),
            v - LR * a * slope,
            float(np.clip(a - alpha_lr * (slope * (v - w)).sum(), 0, 1)),
        )
    return w, v, a, float(np.mean(losses))


def test_apfl_rounds_follow_the_paper():
    alpha_lr = 0.8
    run = simulation({"name": "apfl", "alpha": 0.3, "alpha_lr": alpha_lr}, rounds=3, participation=0.75)
    results = list(run.rounds())
    w, v, local, a = start_of(run), [start_of(run)] * 4, [start_of(run)] * 4, [0.3] * 4
    for round in (1, 2, 3):
        batches = batches_of(run, round)
        taking_part = [i for i in range(4) if batches[i] is not None]
        for i in taking_part:
            local[i], v[i], a[i], loss = mixed_steps(w, v[i], a[i], batches[i], alpha_lr)
            assert results[round].arrays["train_loss"][i] == pytest.approx(loss, rel=1e-10)
        w = np.average([local[i] for i in taking_part], axis=0, weights=[SIZES[i] for i in taking_part])
    mixtures = [a[i] * v[i] + (1 - a[i]) * local[i] for i in range(4)]
    np.testing.assert_allclose(as_matrix(personalized(run)), mixtures, atol=1e-10)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-10)
    np.testing.assert_allclose(results[3].arrays["diagnostics.alpha"], a, atol=1e-10)
    assert len(set(a)) > 2


def test_mixing_shares_of_apfl_stay_in_the_unit_interval():
    shares = trained({"name": "apfl", "alpha_lr": 1e3}, rounds=4).state.alpha
    assert bool(((shares >= 0) & (shares <= 1)).all()) and bool(((shares == 0) | (shares == 1)).any())


def test_apfl_costs_two_gradients_per_step():
    costs = [[r.scalars["gradient_evaluations"] for r in simulation(m).rounds()] for m in ("fedavg", "apfl")]
    assert costs[1] == [2 * cost for cost in costs[0]]


@pytest.mark.parametrize(("alpha", "words"), [(0, "never train"), (1, "local training alone")])
def test_apfl_warns_of_fixed_shares_that_ignore_one_model(alpha, words):
    assert any(words in note for note in simulation({"name": "apfl", "alpha": alpha, "adaptive": False}).task.notes)


def test_a_newcomer_of_apfl_mixes_after_one_participation():
    run = trained({"name": "apfl", "alpha": 0.3, "alpha_lr": 0.8}, with_newcomers())
    found, batches = newcomers_of(run)
    shared = as_matrix(shared_model(run))
    for x, given in zip(found, batches, strict=True):
        w, v, a, _ = mixed_steps(shared, start_of(run), 0.3, given, 0.8)
        np.testing.assert_allclose(x, a * v + (1 - a) * w, atol=1e-12)
