"""FedPHP: the inherited models and both kinds of transfer, computed with numpy and plain autograd."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from engine.algorithms.fedphp import discrepancy
from engine.core.errors import Unsupported
from tests.support import reference
from tests.support.builders import (
    LR,
    SIZES,
    assert_close,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import Model, as_matrix, batches_of, newcomers_of
from tests.support.settings import DNN

KL = {"name": "fedphp", "transfer": "kl"}


def softmax(W: Model, x: np.ndarray, temperature: float) -> np.ndarray:
    powers = np.exp(np.c_[x, np.ones(len(x))] @ W.T / temperature)
    return powers / powers.sum(1, keepdims=True)


def distilled_steps(W: Model, batches: list, lam: float, past: Model) -> tuple[Model, float]:
    """SGD on (1 - lam) cross-entropy + lam KL(past || W) at temperature 4; also the mean cross-entropy."""
    losses = []
    for x, y in batches:
        losses.append(reference.loss(W, x, y))
        difference = (softmax(W, x, 4.0) - softmax(past, x, 4.0)) / 4
        slope = difference.T @ np.c_[x, np.ones(len(x))] / len(x)
        W = W - LR * ((1 - lam) * reference.gradient(W, x, y) + lam * slope)
    return W, float(np.mean(losses))


def test_only_the_transfer_of_features_needs_a_body():
    with pytest.raises(Unsupported, match="transfer: mmd needs a body"):
        simulation("fedphp", model="mlr")
    simulation(KL, model="mlr")
    simulation("fedphp", model=DNN)


@pytest.mark.parametrize("transfer", ["mmd", "kl"])
def test_without_transfer_the_global_model_is_fedavgs(transfer):
    run = trained({"name": "fedphp", "lam": 0, "transfer": transfer}, model=DNN, rounds=3)
    assert_close(shared_model(run), shared_model(trained("fedavg", model=DNN, rounds=3)), 1e-12)


@pytest.mark.parametrize("transfer", ["mmd", "kl"])
def test_the_first_participation_has_no_teacher(transfer):
    run = trained({"name": "fedphp", "lam": 0.9, "transfer": transfer}, model=DNN, rounds=1)
    assert_close(shared_model(run), shared_model(trained("fedavg", model=DNN, rounds=1)), 1e-12)
    assert_close(personalized(run), personalized(trained("local_train", model=DNN, rounds=1)), 1e-12)


def test_a_clients_models_are_inherited_and_teach_the_next():
    lam, mu, rounds = 0.6, 0.8, 5
    run = simulation(KL | {"lam": lam, "mu": mu}, rounds=rounds, participation=0.75)
    results = list(run.rounds())
    w, past, times = as_matrix(run.task.initial_model()), [as_matrix(run.task.initial_model())] * 4, [0] * 4
    for round in range(1, rounds + 1):
        models = {}
        for i, batches in enumerate(batches_of(run, round)):
            if batches is None:
                continue
            models[i], loss = distilled_steps(w, batches, lam if times[i] else 0.0, past[i])
            assert results[round].arrays["train_loss"][i] == pytest.approx(loss, rel=1e-10)
            share = mu * min(1, times[i] / (rounds * 0.75))
            past[i] = share * past[i] + (1 - share) * models[i]
            times[i] += 1
        w = np.average(list(models.values()), axis=0, weights=[SIZES[i] for i in models])
    np.testing.assert_allclose(as_matrix(personalized(run)), past, atol=1e-10)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-10)
    assert run.state.participations.tolist() == times and len(set(times)) > 1


def plain_discrepancy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean kernel within each set minus twice the mean kernel across, pair by pair."""
    both = [*a, *b]
    distances = [(p - q).square().sum() for i, p in enumerate(both) for j, q in enumerate(both) if i != j]
    scale = float(sum(distances).detach()) / len(distances)

    def mean(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        kernels = [
            torch.exp(-(p - q).square().sum() / (scale * width))
            for p in left
            for q in right
            for width in (0.25, 0.5, 1, 2, 4)
        ]
        return torch.stack(kernels).sum() / (len(left) * len(right))

    return mean(a, a) + mean(b, b) - 2 * mean(a, b)


def features_like(*seeds: int, size: int = 5) -> list[torch.Tensor]:
    return [torch.randn(size, 3, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in seeds]


def test_the_discrepancy_of_features_is_the_sum_over_pairs():
    a, b = features_like(0, 1)
    equal = torch.full((5,), 0.2, dtype=torch.float64)
    torch.testing.assert_close(discrepancy(a, b, equal), plain_discrepancy(a, b))
    padded = torch.cat([equal, equal.new_zeros(2)])
    beyond = features_like(7, size=2)[0]
    torch.testing.assert_close(
        discrepancy(torch.cat([a, beyond]), torch.cat([b, 9 * beyond]), padded), plain_discrepancy(a, b)
    )


def test_equal_and_constant_features_have_a_finite_discrepancy():
    a, _ = features_like(0, 1)
    equal = torch.full((5,), 0.2, dtype=torch.float64)
    assert float(discrepancy(a, a, equal)) == pytest.approx(0, abs=1e-12)
    dead = torch.zeros_like(a).requires_grad_()
    value = discrepancy(dead, torch.zeros_like(a), equal)
    (slope,) = torch.autograd.grad(value, dead)
    assert float(value.detach()) == pytest.approx(0, abs=1e-12) and torch.equal(slope, torch.zeros_like(a))


def test_the_gradient_of_the_discrepancy_matches_finite_differences():
    """The bandwidth is treated as a constant."""
    a, b = features_like(0, 1)
    leaf = a.clone().requires_grad_()
    (expected,) = torch.autograd.grad(plain_discrepancy(leaf, b), leaf)
    leaf = a.clone().requires_grad_()
    (slope,) = torch.autograd.grad(discrepancy(leaf, b, torch.full((5,), 0.2, dtype=torch.float64)), leaf)
    torch.testing.assert_close(slope, expected)


def test_features_are_pulled_towards_those_of_the_inherited_model():
    """Computes the second round of every client with plain autograd."""
    lam = 0.5
    run = simulation({"name": "fedphp", "lam": lam}, model=DNN)
    task = run.task
    first, _ = run.algorithm.round(run.state, task.cohort(1), task)
    second, diagnostics = run.algorithm.round(first, task.cohort(2), task)
    for i, batches in enumerate(batches_of(run, 2)):
        past = {n: p[i] for n, p in first.personal_params.items()}
        w, losses = {n: p.clone() for n, p in first.global_params.items()}, []
        for x, y in ((torch.from_numpy(x), torch.from_numpy(y)) for x, y in batches):
            leaves = {n: p.requires_grad_() for n, p in w.items()}
            entropy = F.cross_entropy(task.model.logits(leaves, x), y)
            term = plain_discrepancy(task.model.features(leaves, x), task.model.features(past, x))
            slopes = torch.autograd.grad((1 - lam) * entropy + lam * term, list(leaves.values()))
            w = {n: (p - LR * g).detach() for (n, p), g in zip(leaves.items(), slopes, strict=True)}
            losses.append(float(entropy.detach()))
        share = 0.9 / 2  # one earlier participation of the two expected
        own = {n: share * past[n] + (1 - share) * w[n] for n in w}
        assert_close({n: p[i] for n, p in second.personal_params.items()}, own, 1e-10)
        place = task.cohort(2).clients.tolist().index(i)
        assert float(diagnostics.train_loss[place]) == pytest.approx(np.mean(losses), rel=1e-10)


def test_the_memory_grows_with_every_participation_up_to_mu():
    algorithm, times = simulation(KL).algorithm, torch.tensor([0.0, 1, 2, 4, 50])
    assert algorithm._share_of_past(times, 4.0).tolist() == pytest.approx([0, 0.225, 0.45, 0.9, 0.9])
    assert algorithm._share_of_past(times, 0.25).tolist() == pytest.approx([0, 0.9, 0.9, 0.9, 0.9])


def test_the_mean_weight_of_the_past_is_recorded():
    results = list(simulation(KL, rounds=3).rounds())
    assert [r.scalars["diagnostics.inherited"] for r in results[1:]] == pytest.approx([0, 0.3, 0.6])


def test_fedphp_costs_as_much_as_fedavg():
    names = ("gradient_evaluations", "bytes_up", "bytes_down")
    costs = [[[r.scalars[n] for n in names] for r in simulation(m).rounds()] for m in ("fedavg", KL)]
    assert costs[0] == costs[1]


def test_fedphp_warns_of_lam_one_and_of_mu_zero():
    assert any("nothing is learned" in note for note in simulation(KL | {"lam": 1}).task.notes)
    assert any("nothing is inherited" in note for note in simulation(KL | {"mu": 0}).task.notes)
    assert not simulation(KL).task.notes


def test_a_newcomer_of_fedphp_trains_like_a_first_participation():
    run = trained(KL | {"lam": 0.9}, with_newcomers())
    found, batches = newcomers_of(run)
    start = as_matrix(shared_model(run))
    np.testing.assert_allclose(found, [reference.sgd(start, b, LR) for b in batches], atol=1e-12)


def test_with_independent_draws_models_do_not_depend_on_how_many_take_part():
    """Client 0 inherits as much beside one other client as beside two: privacy of clients needs that."""
    run = simulation(KL, participation=0.5, rounds=4)
    for is_poisson in (True, False):
        task = replace(run.task, is_poisson=is_poisson)
        first, _ = run.algorithm.round(run.state, task.cohort_of([0, 1], 1), task)
        few, many = (run.algorithm.round(first, task.cohort_of(c, 2), task)[0] for c in ([0, 1], [0, 1, 2]))
        same = all(torch.equal(p[0], many.personal_params[n][0]) for n, p in few.personal_params.items())
        assert same is is_poisson
