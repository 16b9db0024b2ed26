"""MOCHA: training alone, the optimum of its objective, its matrix of similarities, and a round with numpy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from engine.algorithms import mocha as module
from engine.algorithms.mocha import overlap, similarities
from engine.core.errors import Unsupported
from tests.support import reference
from tests.support.builders import (
    LR,
    SIZES,
    assert_close,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.newcomers import trained_alone, unseen_models
from tests.support.reference import as_matrix, batches_of, start_of
from tests.support.settings import DNN

N = len(SIZES)
EVERYONE = torch.ones(N, dtype=torch.bool)


def mocha(lam=0.05, **options):
    return {"name": "mocha", "lam": lam, **options}


@pytest.mark.parametrize(
    "training", [{}, {"participation": 0.5}, {"local_epochs": 2, "momentum": 0.5}, {"model": DNN}], ids=str
)
def test_independent_tasks_are_local_training_with_weight_decay(training):
    found = trained(mocha(structure="independent"), rounds=3, **training)
    alone = trained("local_train", rounds=3, weight_decay=0.05 * N, **training)
    assert_close(personalized(found), personalized(alone), 1e-12)
    assert any("trains alone" in note for note in found.task.notes)


def related(rho: float) -> torch.Tensor:
    """Similarities of equally related clients: ((1 - rho) I + rho 11') / N."""
    return ((1 - rho) * torch.eye(N) + rho * torch.ones(N, N)).double() / N


def gradients(run, W: np.ndarray) -> np.ndarray:
    data = [run.task.data.train.of_client(i) for i in range(N)]
    return np.array([reference.gradient(w, x.numpy(), y.numpy()) for w, (x, y) in zip(W, data, strict=True)])


def optimum(run, sigma: torch.Tensor, lam: float) -> np.ndarray:
    """min sum f_i(w_i) + lam/2 tr(W Sigma^-1 W'), over the dual variables V with W = V Sigma."""
    mix = sigma.numpy()

    def models(V: np.ndarray) -> np.ndarray:
        return np.einsum("ij,jcf->icf", mix, V.reshape(N, 3, 6))

    def objective(V: np.ndarray) -> tuple[float, np.ndarray]:
        W = models(V)
        data = [run.task.data.train.of_client(i) for i in range(N)]
        losses = [reference.loss(w, x.numpy(), y.numpy()) for w, (x, y) in zip(W, data, strict=True)]
        value = sum(losses) + lam / 2 * (V.reshape(W.shape) * W).sum()
        return value, np.einsum("ij,jcf->icf", mix, gradients(run, W) + lam * V.reshape(W.shape)).ravel()

    found = minimize(objective, np.zeros(N * 18), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    return models(found.x)


FULL: dict[str, Any] = {"local_steps": 10, "batch_size": "full", "lr": 0.3, "participation": 0.5, "rounds": 4}


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_the_rounds_lead_to_the_optimum_of_fixed_similarities_and_stay_there(rho):
    """With rho = 1 the optimum is one model, the minimizer of sum f_i(w) + lam N/2 ||w||^2."""
    lam, sigma = 0.5, related(rho)
    run = simulation(mocha(lam, structure="independent"), **FULL)
    W = optimum(run, sigma, lam)
    if rho == 1:
        assert np.abs(gradients(run, W).sum(0) + lam * N * W[0]).max() < 1e-7
    flat = torch.from_numpy(-gradients(run, W))
    duals = {"head.weight": flat[..., :-1].clone(), "head.bias": flat[..., -1].clone()}
    there = replace(run.state, sigma=sigma, duals={n: duals[n] for n in run.state.duals})
    after, diagnostics = run.algorithm.round(there, run.task.cohort(1), run.task)
    np.testing.assert_allclose(as_matrix(run.algorithm.personalized(after, run.task).params), W, atol=1e-6)
    assert float(diagnostics.values["dual_gap"]) < 1e-6

    state, distances = replace(run.state, sigma=sigma), []
    for round in range(1, 5):
        found = as_matrix(run.algorithm.personalized(state, run.task).params)
        distances.append(np.linalg.norm(found - W))
        state, _ = run.algorithm.round(state, run.task.cohort(round), run.task)
    assert distances[-1] < distances[0] / 2


def models_of(columns: np.ndarray) -> dict[str, torch.Tensor]:
    return {"w": torch.from_numpy(columns.T.copy())}  # [N, P]


def test_similarities_of_orthonormal_and_of_equal_models():
    keep = torch.full((N, N), torch.nan, dtype=torch.float64)
    rng = np.random.default_rng(0)
    orthonormal = np.linalg.qr(rng.normal(size=(9, N)))[0]
    np.testing.assert_allclose(similarities(models_of(orthonormal), EVERYONE, keep), np.eye(N) / N, atol=1e-14)
    equal = np.outer(rng.normal(size=9), np.ones(N))
    np.testing.assert_allclose(similarities(models_of(equal), EVERYONE, keep), np.full((N, N), 1 / N), atol=1e-9)
    some = rng.normal(size=(9, N))
    found = similarities(models_of(some), EVERYONE, keep)
    torch.testing.assert_close(similarities(models_of(7 * some), EVERYONE, keep), found)
    squared = some.T @ some
    np.testing.assert_allclose(found @ found, squared / np.trace(_root(squared)) ** 2, atol=1e-12)


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(values.clip(0))) @ vectors.T


def test_clients_that_never_took_part_keep_their_entries():
    keep, columns = torch.eye(N).double() / N, np.random.default_rng(0).normal(size=(9, N))
    is_known = torch.tensor([True, False, True, True])
    found = similarities(models_of(columns), is_known, keep)
    assert found[1].tolist() == found[:, 1].tolist() == [0, 1 / N, 0, 0]
    assert float(found.diagonal().sum()) == pytest.approx(1)
    root = _root(columns[:, is_known.numpy()].T @ columns[:, is_known.numpy()])
    np.testing.assert_allclose(found[is_known][:, is_known], 3 / N * root / np.trace(root), atol=1e-12)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf, 1e200])
def test_similarities_stay_where_the_models_are_zero_or_not_finite(bad):
    keep = related(0.3)
    assert torch.equal(similarities(models_of(np.full((9, N), bad)), EVERYONE, keep), keep)


def test_a_model_near_zero_keeps_a_similarity_to_itself():
    columns = np.eye(9)[:, :N] * [1, 1, 1, 0]
    found = similarities(models_of(columns), EVERYONE, related(0)).diagonal()
    np.testing.assert_allclose(found, np.array([1, 1, 1, 0]) / 3 + 1e-6 / N, rtol=1e-9)


def test_the_overlap_is_one_for_independent_and_n_for_equal_clients():
    assert float(overlap(related(0.0))) == pytest.approx(1)
    assert float(overlap(related(1.0))) == pytest.approx(N)


def test_rounds_with_learned_similarities_follow_the_paper():
    run = trained(mocha(lam=0.05, sigma_every=2), rounds=4, participation=0.75)
    lam, known = 0.05, np.zeros(N, bool)
    B, sigma = np.stack([lam * N * start_of(run)] * N), np.eye(N) / N
    for round in (1, 2, 3, 4):
        W = np.einsum("ij,jcf->icf", sigma, B) / lam
        strength = max(np.abs(sigma[i]).sum() / sigma[i, i] for i in range(N))
        for i, batches in enumerate(batches_of(run, round)):
            if batches is None:
                continue
            known[i], u, k = True, W[i], lam / (strength * sigma[i, i])
            for x, y in batches:
                u = u - LR * (reference.gradient(u, x, y) + B[i] + k * (u - W[i]))
            B[i] = B[i] + k * (u - W[i])
        if round % 2 == 0:
            flat = (np.einsum("ij,jcf->icf", sigma, B) / lam).reshape(N, -1)[known]
            root, sigma = _root(flat @ flat.T), np.eye(N) / N
            sigma[np.ix_(known, known)] = root / np.trace(root) * known.mean()
    np.testing.assert_allclose(run.state.sigma, sigma, atol=1e-10)
    expected = np.einsum("ij,jcf->icf", sigma, B) / lam
    np.testing.assert_allclose(as_matrix(personalized(run)), expected, atol=1e-9)
    last = list(simulation(mocha(lam=0.05, sigma_every=2), rounds=4, participation=0.75).rounds())[-1]
    np.testing.assert_allclose(last.arrays["diagnostics.Sigma"], sigma, atol=1e-10)


def test_mocha_starts_at_the_common_model_and_has_no_global_one():
    run = simulation(mocha())
    for w in as_matrix(personalized(run)):
        np.testing.assert_allclose(w, start_of(run), atol=1e-15)
    assert run.algorithm.global_model(run.state, run.task) is None


def test_mocha_notes_that_networks_are_outside_its_theory():
    assert not simulation(mocha()).task.notes
    assert any("linear models only" in note for note in simulation(mocha(), model=DNN).task.notes)


def test_mocha_refuses_more_clients_than_it_can_compare(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CLIENTS", 3)
    with pytest.raises(Unsupported, match="at most 3 clients, and there are 4; choose fewer clients"):
        simulation(mocha())


def test_a_newcomer_of_mocha_trains_alone_with_weight_decay():
    run = trained(mocha(), with_newcomers(), weight_decay=0.1)
    alone = trained("local_train", with_newcomers(), weight_decay=0.1 + 0.05 * N)
    assert_close(unseen_models(run), trained_alone(alone), 1e-12)


def test_mocha_sends_one_model_each_way():
    own, fedavg = (list(simulation(m, rounds=1).rounds())[1].scalars for m in (mocha(), "fedavg"))
    assert all(own[n] == fedavg[n] > 0 for n in ("bytes_up", "bytes_down", "gradient_evaluations"))
