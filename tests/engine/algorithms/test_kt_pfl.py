"""KT-pFL: the coefficients of knowledge transfer and the distillation, computed with plain loops and autograd."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.algorithms.kt_pfl import divergence_gradient
from engine.core.errors import Unsupported
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    LR,
    PUBLIC,
    assert_close,
    assert_equal,
    federation,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.lost_uploads import losing
from tests.support.public_samples import alignment_of, descend, mean_loss, public_batches
from tests.support.settings import DNN
from tests.support.split_models import EXACT, row_of

KT_PFL: dict[str, Any] = {"name": "kt_pfl", "public_samples": 6, "distill_steps": 5, "lam": 20.0, "temperature": 2.0}
C = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])


def with_models_that_differ(method: dict[str, Any], coefficients: torch.Tensor | None = None, **changed: Any):
    """A run whose clients have trained alone for a round."""
    run = simulation(method, model=DNN, **changed)
    own = personalized(trained("local_train", model=DNN, rounds=1))
    c = run.state.coefficients if coefficients is None else coefficients.double()
    run.state = replace(run.state, personal_params=own, coefficients=c)
    return run


def scores_of(params: plain.Params, x: torch.Tensor) -> torch.Tensor:
    powers = torch.exp(plain.logits(params, x) / 2.0)
    return powers / powers.sum(1, keepdim=True)


def divergence(t: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return (t * torch.log(t / s)).sum(1).mean()


def projected(v: np.ndarray) -> np.ndarray:
    """The simplex's nearest point, by bisection of the shift."""
    low, high = v.min() - 1.0, v.max()
    for _ in range(200):
        shift = (low + high) / 2
        low, high = (shift, high) if np.maximum(v - shift, 0).sum() > 1 else (low, shift)
    return np.maximum(v - shift, 0)


def new_row(c: torch.Tensor, i: int, s: list[torch.Tensor], lam: float, rho: float, lr: float) -> torch.Tensor:
    leaf = c.clone().requires_grad_()
    loss = lam * divergence(sum(share * own for share, own in zip(leaf, s, strict=True)), s[i])
    (slope,) = torch.autograd.grad(loss + rho * (leaf - 1 / len(s)).square().sum(), leaf)
    return torch.from_numpy(projected((c - lr * slope).numpy()))


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_rounds_equal_a_loop_over_clients_with_plain_autograd(momentum):
    h = {"rho": 0.3, "coefficient_lr": 0.2}
    run = with_models_that_differ(KT_PFL | h, C, participation=0.75, momentum=momentum)
    theta, c, state = [row_of(run.state.personal_params, i) for i in range(4)], C.double(), run.state

    def taught(t: torch.Tensor):
        def loss(params: plain.Params, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            return 20.0 * divergence(t[places], scores_of(params, x))

        return loss

    for round in (2, 3):
        cohort, x = run.task.cohort(round), alignment_of(run, round, 6)
        state, diagnostics = run.algorithm.round(state, cohort, run.task)
        present = sorted(cohort.client_ids)
        s = [scores_of(theta[i], x) for i in present]
        losses, moved = {}, c.clone()
        batches = samples_of(run.task, cohort.clients, cohort.plan)
        for place, i in enumerate(present):
            mass = c[i][present].sum()
            row = new_row(c[i][present] / mass, place, s, 20.0, rho=h["rho"], lr=h["coefficient_lr"])
            moved[i, present] = row * mass
            t = sum(share * own for share, own in zip(row, s, strict=True))
            alike = [(x[places], places) for places in public_batches(6, 5, 4)]
            start = descend(theta[i], alike, taught(t), LR, momentum)
            losses[i] = mean_loss(start, batches[i], LR, momentum)
            theta[i] = descend(start, batches[i], plain.cross_entropy, LR, momentum)
        assert float((moved - c).abs().max()) > 0.01
        c = moved
        torch.testing.assert_close(state.coefficients, c, rtol=EXACT, atol=EXACT)
        assert torch.equal(diagnostics.values["coefficients"], state.coefficients)
        torch.testing.assert_close(state.mean_scores, sum(s) / len(s), rtol=EXACT, atol=EXACT)
        assert_close(state.personal_params, plain.stack(theta), EXACT)
        assert diagnostics.train_loss.tolist() == pytest.approx([losses[i] for i in cohort.client_ids], rel=EXACT)
        # Five batches of six samples by four: 4, 2, 4, 2, 4.
        assert diagnostics.gradient_evaluations == cohort.plan.gradient_evaluations + 16 * cohort.size


def test_with_a_learning_rate_of_zero_the_coefficients_stay_uniform():
    run = trained(KT_PFL | {"coefficient_lr": 0}, model=DNN, rounds=3, participation=0.75)
    assert_close({"c": run.state.coefficients}, {"c": torch.full((4, 4), 0.25, dtype=torch.float64)}, 1e-15)


def test_models_that_agree_change_neither_coefficients_nor_each_other():
    run = trained(KT_PFL | {"distill_steps": 50}, model=DNN, rounds=1)
    assert_close({"c": run.state.coefficients}, {"c": torch.full((4, 4), 0.25, dtype=torch.float64)}, 1e-12)
    assert_close(personalized(run), personalized(trained("local_train", model=DNN, rounds=1)), 1e-12)


def test_a_client_that_learns_from_itself_alone_trains_locally():
    run = simulation(KT_PFL | {"coefficient_lr": 0}, model=DNN, rounds=3)
    run.state = replace(run.state, coefficients=torch.eye(4, dtype=torch.float64))
    for _ in run.rounds():
        pass
    assert_close(personalized(run), personalized(trained("local_train", model=DNN, rounds=3)), 1e-12)


@pytest.mark.parametrize(("option", "note"), [("lam", "lam=0"), ("distill_steps", "distill_steps=0")])
def test_without_transfer_this_is_local_training(option, note):
    run = trained(KT_PFL | {option: 0}, rounds=3)
    assert_equal(personalized(run), personalized(trained("local_train", rounds=3)))
    assert any(note in text for text in run.task.notes) and not simulation("kt_pfl").task.notes


def test_a_strong_pull_makes_the_coefficients_uniform():
    run = with_models_that_differ(KT_PFL | {"rho": 1e6, "coefficient_lr": 1 / 2e6}, C)
    state, _ = run.algorithm.round(run.state, run.task.cohort(2), run.task)
    assert_close({"c": state.coefficients}, {"c": torch.full((4, 4), 0.25, dtype=torch.float64)}, 1e-5)


def test_the_gradient_of_the_divergence_is_that_of_autograd_up_to_a_constant_by_row():
    stream = torch.Generator().manual_seed(0)
    scores = torch.rand(4, 5, 3, generator=stream, dtype=torch.float64).softmax(-1)
    leaf = C.double().requires_grad_()
    loss = sum(divergence(torch.einsum("j,jnc->nc", leaf[i], scores), scores[i]) for i in range(4))
    (expected,) = torch.autograd.grad(loss, leaf)
    torch.testing.assert_close(divergence_gradient(C.double(), scores), expected - 1, rtol=1e-12, atol=1e-12)


def test_scores_of_zero_have_a_finite_gradient():
    certain = torch.eye(3, dtype=torch.float64)[None].repeat(2, 1, 1)
    certain[1] = certain[1].flip(0)
    found = divergence_gradient(torch.eye(2, dtype=torch.float64), certain)
    assert found.isfinite().all() and found.diagonal().tolist() == [0, 0]


def test_rows_of_coefficients_stay_on_the_simplex_and_those_of_absent_clients_stay():
    method = KT_PFL | {"lam": 100.0, "rho": 0.0, "coefficient_lr": 1.0}
    run = simulation(method, model=DNN, rounds=6, participation=0.5)
    before = run.state.coefficients
    for result in run.rounds():
        c = run.state.coefficients
        assert bool((c >= 0).all()) and c.sum(1).tolist() == pytest.approx([1] * 4, rel=1e-12)
        absent = [i for i in range(4) if i not in result.cohort]
        assert torch.equal(c[absent], before[absent])
        before = c
    assert float((before - 0.25).abs().max()) > 0.01


def test_a_client_that_learned_from_nobody_in_the_cohort_takes_the_average():
    """Its stored row has no mass there, and keeps none."""
    alone = torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    run = with_models_that_differ(KT_PFL | {"coefficient_lr": 0}, alone)
    uniform = with_models_that_differ(KT_PFL | {"coefficient_lr": 0})
    cohort = run.task.cohort_of([0, 2], 2)
    found, expected = (r.algorithm.round(r.state, cohort, r.task)[0] for r in (run, uniform))
    assert_close(found.personal_params, expected.personal_params, 1e-12)
    assert torch.equal(found.coefficients, alone.double())


def test_the_coefficients_of_many_clients_are_not_recorded(monkeypatch):
    monkeypatch.setattr("engine.algorithms.kt_pfl.MAX_RECORDED", 3)
    *_, result = simulation(KT_PFL).rounds()
    assert "diagnostics.coefficients" not in result.arrays


def test_the_round_sends_scores_of_the_public_samples():
    results = list(simulation(KT_PFL, participation=0.5).rounds())
    for result in results[1:]:
        assert result.scalars["bytes_up"] == result.scalars["bytes_down"] == 2 * 6 * 3 * 8
    assert results[1].scalars["diagnostics.public_bytes"] == PUBLIC * 5 * 8
    assert "diagnostics.public_bytes" not in results[2].scalars


def test_a_federation_without_public_samples_is_refused():
    with pytest.raises(Unsupported, match=r"kt_pfl needs public samples: set partition.public_fraction"):
        simulation("kt_pfl", replace(federation(), public=None))


def test_a_client_whose_scores_are_lost_trains_alone_and_the_others_learn_as_without_it():
    run, without = losing(with_models_that_differ(KT_PFL, C), 1), with_models_that_differ(KT_PFL, C)
    cohort = run.task.cohort(2)
    lost = cohort.client_ids[1]
    found, _ = run.algorithm.round(run.state, cohort, run.task)
    others = [i for i in cohort.client_ids if i != lost]
    expected, _ = without.algorithm.round(without.state, without.task.cohort_of(others, 2), without.task)
    for i in others:
        assert_close(row_of(found.personal_params, i), row_of(expected.personal_params, i), 1e-12)
    assert_close({"c": found.coefficients}, {"c": expected.coefficients}, 1e-14)
    own = samples_of(run.task, cohort.clients, cohort.plan)[lost]
    alone = plain.descend(row_of(run.state.personal_params, lost), own)
    assert_close(row_of(found.personal_params, lost), alone, EXACT)


def test_without_any_scores_the_coefficients_stay():
    run = losing(with_models_that_differ(KT_PFL, C), 0, 1, 2, 3)
    state, _ = run.algorithm.round(run.state, run.task.cohort(2), run.task)
    assert torch.equal(state.coefficients, C.double()) and state.round == 0


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_newcomer_learns_from_the_mean_of_the_last_scores(rounds):
    run = simulation(KT_PFL, with_newcomers(), model=DNN, rounds=3)
    for result in run.rounds():
        if result.round == rounds:
            break
    task = run.task.of_unseen()
    newcomers = task.everyone(stream="newcomers")
    found = run.algorithm.adapted(run.state, newcomers, task).params
    start, mean = run.task.initial_model(), run.state.mean_scores
    if rounds:
        x = alignment_of(run, rounds, 6)
        alike = [(x[places], places) for places in public_batches(6, 5, 4)]
        goal = lambda params, x, places: 20.0 * divergence(mean[places], scores_of(params, x))  # noqa: E731
        start = descend(start, alike, goal, LR, 0.0)
    for i, batches in samples_of(task, newcomers.clients, newcomers.plan).items():
        assert_close(row_of(found, i), plain.descend(start, batches), EXACT)
