"""GPFL: rounds computed with plain autograd, guidance and conditions."""

import pytest
import torch
from torch.nn import functional as F

from engine.algorithms.gpfl import cosines
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, assert_equal, federation, simulation, trained
from tests.support.settings import DNN

SHARED = ("body.", "cov.", "gce.")
EXACT = 1e-10


def affine(params: plain.Params, which: str, condition: torch.Tensor) -> torch.Tensor:
    """LayerNorm(relu(linear(c))), with the normalization written out."""
    out = (params[f"cov.{which}.weight"] @ condition + params[f"cov.{which}.bias"]).clamp(min=0)
    scaled = (out - out.mean()) / (out.var(unbiased=False) + 1e-5).sqrt()
    return scaled * params[f"cov.{which}_norm.weight"] + params[f"cov.{which}_norm.bias"]


def conditioned(params: plain.Params, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    """f_G or f_P."""
    gamma, beta = affine(params, "gamma", condition), affine(params, "beta", condition)
    return ((gamma + 1) * plain.hidden(params, x) + beta).clamp(min=0)


def personal_logits(params: plain.Params, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    return conditioned(params, x, condition) @ params["head.weight"].T + params["head.bias"]


def loss_of(received: torch.Tensor, counts: torch.Tensor, lam: float, mu: float, mlg: str):
    """The complete loss of one client, with conditions from the received embeddings."""
    generic, personal = received.mean(0), (received * (counts / counts.sum())[:, None]).sum(0)

    def loss(params, x, y):
        guided, embeddings = conditioned(params, x, generic), params["gce.weight"]
        cosine = torch.stack([F.cosine_similarity(guided, e[None]) for e in embeddings], 1)
        gap = guided - received[y]
        magnitude = gap.norm(dim=1).mean() if mlg == "mean" else gap.norm()
        decay = sum(p.square().sum() for n, p in params.items() if n.startswith(("cov.", "gce.")))
        task_loss = F.cross_entropy(personal_logits(params, x, personal), y)
        return task_loss + F.cross_entropy(cosine, y) + lam * magnitude + mu / 2 * decay

    return loss


def part(params: plain.Params, prefix: str | tuple[str, ...]) -> plain.Params:
    return {n: p for n, p in params.items() if n.startswith(prefix)}


@pytest.mark.parametrize("mlg", ["mean", "frobenius"])
def test_two_rounds_follow_the_paper(mlg):
    run = trained({"name": "gpfl", "lam": 0.3, "mu": 0.2, "mlg": mlg}, model=DNN, participation=0.75)
    start = simulation("gpfl", model=DNN).state
    shared, heads = dict(start.shared_params), [{n: p[i] for n, p in start.personal_params.items()} for i in range(4)]
    counts = run.task.data.class_counts.double()
    for round in (1, 2):
        cohort = run.task.cohort(round)
        batches = samples_of(run.task, cohort.clients, cohort.plan)
        after = {
            i: plain.descend(shared | heads[i], own, loss=loss_of(shared["gce.weight"], counts[i], 0.3, 0.2, mlg))
            for i, own in batches.items()
        }
        for i, params in after.items():
            heads[i] = part(params, "head.")
        shared = plain.average(after, SIZES, SHARED)
    assert_close(run.state.shared_params, shared, EXACT)
    assert_close(run.state.personal_params, plain.stack(heads), EXACT)
    predictor = run.algorithm.personalized(run.state, run.task)
    for i in range(4):
        x, _ = run.task.data.test.of_client(i)
        condition = counts[i] / counts[i].sum() @ shared["gce.weight"]
        expected = personal_logits(shared | heads[i], x, condition)
        torch.testing.assert_close(predictor.forward(predictor.of_client(i), x), expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("batch_size", [4, "full"])
def test_the_norm_over_a_batch_excludes_padding(batch_size):
    states = [
        trained({"name": "gpfl", "lam": 0.5, "mlg": "frobenius"}, model=DNN, batch_size=batch_size, backend=b).state
        for b in ("loop", "batched", "fused")
    ]
    for state in states[1:]:
        assert_close(states[0].shared_params, state.shared_params, EXACT)
        assert_close(states[0].personal_params, state.personal_params, EXACT)


def test_both_magnitude_losses_agree_on_batches_of_one():
    mean, frobenius = (
        trained({"name": "gpfl", "lam": 0.5, "mlg": mlg}, model=DNN, batch_size=1).state
        for mlg in ("mean", "frobenius")
    )
    assert_close(mean.shared_params, frobenius.shared_params, EXACT)


def test_mu_only_decays_embeddings_and_valve():
    data, settings = federation((8,)), {"model": DNN, "local_steps": 1, "rounds": 1}
    before = simulation("gpfl", data, **settings).state.shared_params
    free, decayed = (trained({"name": "gpfl", "mu": mu}, data, **settings).state for mu in (0.0, 0.5))
    for n, p in before.items():
        share = 0.1 * 0.5 if n.startswith(("cov.", "gce.")) else 0.0
        torch.testing.assert_close(decayed.shared_params[n], free.shared_params[n] - share * p)
    assert_equal(free.personal_params, decayed.personal_params)


def test_the_training_loss_is_that_of_the_personalized_task():
    run = simulation({"name": "gpfl", "lam": 2.0}, model=DNN, batch_size="full", local_steps=1)
    cohort = run.task.cohort(1)
    _, diagnostics = run.algorithm.round(run.state, cohort, run.task)
    predictor = run.algorithm.personalized(run.state, run.task)
    for s, client in enumerate(cohort.clients.tolist()):
        x, y = run.task.data.train.of_client(client)
        logits = predictor.forward(predictor.of_client(client), x)
        torch.testing.assert_close(diagnostics.train_loss[s], F.cross_entropy(logits, y))


def test_body_valve_and_embeddings_are_sent_and_the_head_is_not():
    shared = simulation("gpfl", model=DNN).algorithm.shared(simulation("gpfl", model=DNN).state)
    body, valve, embeddings = 5 * 6 + 6, 2 * (6 * 6 + 3 * 6), 3 * 6
    assert shared.bytes_up == shared.bytes_down == 8 * (body + valve + embeddings)


def test_a_vector_of_zeros_has_cosine_zero_and_no_gradient():
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    cosine = cosines(rows, torch.tensor([[2.0, 0.0]], dtype=torch.float64))[:, 0]
    torch.testing.assert_close(cosine.detach(), torch.tensor([0.0, 0.6], dtype=torch.float64))
    cosine.sum().backward()
    torch.testing.assert_close(rows.grad, torch.tensor([[0.0, 0.0], [0.128, -0.096]], dtype=torch.float64))


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
@pytest.mark.parametrize("mlg", ["mean", "frobenius"])
def test_zero_features_and_embeddings_have_finite_gradients(backend, mlg):
    """With all embeddings and features zero, every cosine and norm is taken at zero."""
    run = simulation({"name": "gpfl", "lam": 1.0, "mlg": mlg}, model=DNN | {"init": "zeros"}, backend=backend)
    state = type(run.state)({n: p * 0 for n, p in run.state.shared_params.items()}, run.state.personal_params)
    after, diagnostics = run.algorithm.round(state, run.task.cohort(1), run.task)
    assert diagnostics.train_loss.isfinite().all()
    assert all(p.isfinite().all() for p in after.shared_params.values())
    assert all(p.isfinite().all() for p in after.personal_params.values())


def test_a_newcomers_head_is_conditioned_on_its_own_classes():
    run = trained("gpfl", model=DNN)
    task = simulation("gpfl", federation((5, 8), seed=7), model=DNN).task
    newcomers = task.everyone(stream="newcomers")
    adapted = run.algorithm.adapted(run.state, newcomers, task)
    received, counts = run.state.shared_params, task.data.class_counts.double()
    batches = samples_of(task, newcomers.clients, newcomers.plan)
    for i in range(2):
        own = part(task.initial_model(), "head.")
        params = plain.descend(
            received | own, batches[i], loss=loss_of(received["gce.weight"], counts[i], 0.01, 0.1, "mean")
        )
        assert_close(part(adapted.of_client(i), "head."), part(params, "head."), EXACT)
        condition = counts[i] / counts[i].sum() @ received["gce.weight"]
        torch.testing.assert_close(adapted.of_client(i)["condition"], condition)
        assert_equal(part(adapted.of_client(i), "body."), part(received, "body."))
