"""Per-FedAvg: FedAvg without adaptation, its meta-gradient, and rounds computed with numpy."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.support import reference
from tests.support.builders import (
    LR,
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import Model, as_matrix, batches_of, newcomers_of, start_of, steps_of
from tests.support.settings import UNEQUAL_STEPS

HF: dict[str, Any] = {"name": "per_fedavg", "alpha": 0.3}


@pytest.mark.parametrize("variant", ["fo", "hf"])
def test_per_fedavg_without_adaptation_is_fedavg_with_rate_beta(variant):
    training = {"momentum": 0.5, "weight_decay": 0.01, "participation": 0.75}
    run = trained({"name": "per_fedavg", "variant": variant, "alpha": 0, "beta": 0.2}, **training)
    assert_close(shared_model(run), shared_model(trained("fedavg", lr=0.2, **training)), 1e-12)
    assert_close(personalized(run), {n: p.expand(4, *p.shape) for n, p in shared_model(run).items()}, 1e-12)
    assert any("alpha=0" in note for note in run.task.notes)


def test_the_meta_gradient_matches_finite_differences():
    """Differences of F(w) = f(w - alpha grad f(w)), on full batches with one client and one step."""
    alpha, h = 0.3, 1e-6
    run = trained(HF, federation(sizes=(8,)), rounds=1, local_steps=1, batch_size="full")
    x, y = batches_of(run, 1)[0][0]
    W = start_of(run)

    def adapted_loss(W: Model) -> float:
        return reference.loss(W - alpha * reference.gradient(W, x, y), x, y)

    slope = np.zeros_like(W)
    for place in np.ndindex(W.shape):
        up, down = W.copy(), W.copy()
        up[place] += h
        down[place] -= h
        slope[place] = (adapted_loss(up) - adapted_loss(down)) / (2 * h)
    np.testing.assert_allclose((W - as_matrix(shared_model(run))) / LR, slope, atol=1e-8)


def test_the_meta_gradient_of_a_network_matches_finite_differences():
    """Along a few random directions, to test the Hessian product through ReLU and two layers."""
    alpha, h = 0.3, 1e-5
    run = trained(
        HF, federation(sizes=(8,)), model={"name": "dnn", "hidden": 6}, rounds=1, local_steps=1, batch_size="full"
    )
    x, y = run.task.data.train.of_client(0)
    start, found = run.task.initial_model(), shared_model(run)

    def adapted_loss(params: dict[str, torch.Tensor]) -> float:
        leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
        value = torch.nn.functional.cross_entropy(run.task.model.logits(leaves, x), y)
        slopes = torch.autograd.grad(value, list(leaves.values()))
        moved = {n: p - alpha * g for (n, p), g in zip(params.items(), slopes, strict=True)}
        return float(torch.nn.functional.cross_entropy(run.task.model.logits(moved, x), y))

    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        along = {n: torch.randn(p.shape, generator=generator, dtype=p.dtype) for n, p in start.items()}
        ends = [adapted_loss({n: p + s * along[n] for n, p in start.items()}) for s in (h, -h)]
        slope = sum(float(((start[n] - found[n]) / LR * along[n]).sum()) for n in start)
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("variant", ["fo", "hf"])
@pytest.mark.parametrize("training", UNEQUAL_STEPS, ids=["steps", "epochs"])
def test_per_fedavg_rounds_follow_the_paper(variant, training):
    alpha, beta = 0.3, 0.2
    entry = {"name": "per_fedavg", "alpha": alpha, "beta": beta, "variant": variant, "adapt_steps": 2}
    run = simulation(entry, rounds=2, participation=0.75, **training)
    results, w = list(run.rounds()), start_of(run)
    for round in (1, 2):
        clients = run.task.cohort(round).clients.tolist()
        streams = [
            steps_of(run.task, run.task.cohort_of(clients, round, stream))
            for stream in ("adaptation batches", "batches", "Hessian batches")
        ]
        models, evaluations = {}, 0
        for i in clients:
            local, losses = w, []
            for first, second, third in zip(*(batches[i] for batches in streams), strict=True):
                adapted = local - alpha * reference.gradient(local, *first)
                g = reference.gradient(adapted, *second)
                losses.append(reference.loss(adapted, *second))
                evaluations += len(first[1]) + len(second[1])
                if variant == "hf":
                    g = g - alpha * reference.hessian_vector(local, g, *third)
                    evaluations += 2 * len(third[1])
                local = local - beta * g
            models[i] = local
            assert results[round].arrays["train_loss"][i] == pytest.approx(np.mean(losses), rel=1e-10)
        assert results[round].scalars["gradient_evaluations"] == evaluations
        w = np.average(list(models.values()), axis=0, weights=[SIZES[i] for i in models])
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-10)
    everyone = run.task.everyone(stream="adapt", steps=2)
    own = [reference.sgd(w, batches, alpha) for batches in steps_of(run.task, everyone)]
    np.testing.assert_allclose(as_matrix(personalized(run)), own, atol=1e-10)


def test_gradient_differences_approximate_the_exact_product():
    exact, near = trained(HF), trained(HF | {"hvp": "difference", "delta": 1e-4})
    assert_close(shared_model(near), shared_model(exact), 1e-7)
    assert float((shared_model(near)["head.weight"] - shared_model(exact)["head.weight"]).abs().max()) > 0
    far = trained(HF | {"hvp": "difference", "delta": 3.0})
    with pytest.raises(AssertionError):
        assert_close(shared_model(far), shared_model(exact), 1e-7)


def test_differences_are_of_gradients_before_they_are_clipped():
    """As the exact product is of the loss, whose gradient is clipped afterwards."""
    exact, near = (trained(HF | {"hvp": kind, "delta": 1e-4}, clip_norm=0.05) for kind in ("exact", "difference"))
    assert_close(shared_model(near), shared_model(exact), 1e-7)


def test_the_first_order_variant_omits_the_hessian():
    full, first = (shared_model(trained(HF | {"variant": v}))["head.weight"] for v in ("hf", "fo"))
    assert float((full - first).abs().max()) > 1e-4


def test_the_hessian_product_includes_the_l2_term():
    l2 = {"name": "mlr", "l2": 0.3}
    exact, near = (trained(HF | {"hvp": kind}, model=l2) for kind in ("exact", "difference"))
    assert_close(shared_model(near), shared_model(exact), 1e-5)


def test_adaptation_takes_the_same_steps_in_training_and_evaluation():
    """Momentum and decay of the training settings only apply to the steps of size beta."""
    plain = simulation(HF | {"adapt_steps": 3})
    with_decay = simulation(HF | {"adapt_steps": 3}, momentum=0.5, weight_decay=0.1)
    assert_equal(personalized(plain), personalized(with_decay))


def test_a_newcomer_of_per_fedavg_adapts_the_global_model():
    run = trained(HF | {"adapt_steps": 2}, with_newcomers())
    task = run.task.of_unseen()
    w = as_matrix(shared_model(run))
    own = [reference.sgd(w, b, 0.3) for b in steps_of(task, task.everyone(stream="adapt", steps=2))]
    np.testing.assert_allclose(newcomers_of(run)[0], own, atol=1e-12)
