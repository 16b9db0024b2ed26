"""FedCP: rounds computed with plain autograd, its policy and its discrepancy."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.algorithms.fedcp import direction, discrepancy
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from engine.models import Model, SplitModel
from engine.training.body_head import part
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, personalized, simulation, trained, with_newcomers
from tests.support.newcomers import unseen_models
from tests.support.settings import DNN
from tests.support.split_models import row_of

EXACT = 1e-10
MOVING = ("body.", "cpn", "head.")
WEIGHTS = torch.full((5,), 0.2, dtype=torch.float64)


def direction_of(params: plain.Params) -> torch.Tensor:
    return F.normalize(params["head.weight"].sum(0), dim=0)


def logits(params: plain.Params, x: torch.Tensor, toward: torch.Tensor) -> torch.Tensor:
    """h_i(r f) + g(s f), unit by unit."""
    features = plain.hidden(params, x)
    linear = (features * toward) @ params["cpn.weight"].T + params["cpn.bias"]
    scaled = (linear - linear.mean(1, keepdim=True)) / (linear.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    pairs = (scaled * params["cpn_norm.weight"] + params["cpn_norm.bias"]).clamp(min=0).view(len(x), 2, -1)
    r, s = pairs.softmax(1).unbind(1)
    own = (r * features) @ params["head.weight"].T + params["head.bias"]
    return own + (s * features) @ params["g.head.weight"].T + params["g.head.bias"]


def plain_discrepancy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean kernel within each set minus twice the mean kernel across, pair by pair."""

    def mean(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        pairs = [(p - q).square().sum() for p in left for q in right]
        return torch.stack([torch.exp(-d / (2 * a)) for d in pairs for a in (10, 15, 20, 50)]).sum() / len(pairs)

    return mean(a, a) + mean(b, b) - 2 * mean(a, b)


def whole_loss(received: plain.Params, toward: torch.Tensor, lam: float):
    def loss(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gap = plain_discrepancy(plain.hidden(params, x), plain.hidden(received, x))
        return F.cross_entropy(logits(params, x, toward), y) + lam * gap

    return loss


def test_rounds_follow_the_paper():
    lam, settings = 40.0, {"model": DNN, "participation": 0.75}
    runs = [simulation({"name": "fedcp", "lam": lam}, backend=b, **settings) for b in ("loop", "batched", "fused")]
    run = runs[0]
    shared, head = dict(run.state.shared_params), part(run.task.initial_model(), run.task.model.head)
    heads = [head] * 4
    for results in list(zip(*(run.rounds() for run in runs), strict=True))[1:]:
        cohort = run.task.cohort(results[0].round)
        uploads = {}
        for i, batches in samples_of(run.task, cohort.clients, cohort.plan).items():
            start, toward = shared | heads[i], direction_of(heads[i])
            loss = whole_loss(shared, toward, lam)
            walked = [start]
            for batch in batches:
                walked.append(plain.descend(walked[-1], [batch], loss=loss, trained=MOVING))
            at = zip(walked[:3], batches, strict=True)
            losses = [float(F.cross_entropy(logits(p, x, toward), y)) for p, (x, y) in at]
            for result in results:
                assert result.arrays["train_loss"][i] == pytest.approx(sum(losses) / 3, rel=1e-9)
            heads[i] = part(walked[3], head)
            halfway = {f"g.{n}": (heads[i][n] + shared[f"g.{n}"]) / 2 for n in head}
            uploads[i] = part(walked[3], shared) | halfway
        shared = plain.average(uploads, SIZES, ("body.", "cpn", "g."))
    for run in runs:
        assert_close(run.state.shared_params, {n: shared[n] for n in run.state.shared_params}, EXACT)
        assert_close(dict(run.state.personal_params), plain.stack(heads), EXACT)
        predictor = run.algorithm.personalized(run.state, run.task)
        for i in range(4):
            x, _ = run.task.data.test.of_client(i)
            expected = logits(shared | heads[i], x, direction_of(heads[i]))
            torch.testing.assert_close(predictor.forward(predictor.of_client(i), x), expected, rtol=EXACT, atol=EXACT)
        assert run.algorithm.global_model(run.state, run.task) is None


def test_while_both_heads_agree_the_policy_has_no_effect():
    run = simulation("fedcp", model=DNN)
    predictor = run.algorithm.personalized(run.state, run.task)
    x, _ = run.task.data.test.of_client(0)
    start = run.task.initial_model()
    expected = plain.logits(start, x) + start["head.bias"]
    for scale in (1.0, -30.0):
        params = {n: scale * p if n.startswith("cpn") else p for n, p in predictor.of_client(0).items()}
        torch.testing.assert_close(predictor.forward(params, x), expected, rtol=EXACT, atol=EXACT)


def test_the_first_step_moves_no_policy_and_knows_no_lam():
    before = simulation("fedcp", model=DNN).state.shared_params
    free, pulled = (
        trained({"name": "fedcp", "lam": lam}, model=DNN, rounds=1, local_steps=1).state for lam in (0.0, 5.0)
    )
    assert_close(free.shared_params, pulled.shared_params, 1e-12)
    policy = [n for n in before if n.startswith("cpn")]
    assert_close(part(pulled.shared_params, policy), part(before, policy), 1e-12)
    two = (trained({"name": "fedcp", "lam": lam}, model=DNN, rounds=1, local_steps=2).state for lam in (0.0, 500.0))
    a, b = (state.shared_params for state in two)
    assert (a["body.1.weight"] - b["body.1.weight"]).abs().max() > 1e-6
    assert (a["cpn.weight"] - before["cpn.weight"]).abs().max() > 1e-6


def test_a_policy_of_zeros_halves_every_feature():
    run = trained("fedcp", model=DNN)
    predictor = run.algorithm.personalized(run.state, run.task)
    x, _ = run.task.data.test.of_client(1)
    params = {n: p * 0 if n.startswith("cpn") else p for n, p in predictor.of_client(1).items()}
    half = plain.hidden(params, x) / 2
    own = half @ params["head.weight"].T + params["head.bias"]
    expected = own + half @ params["g.head.weight"].T + params["g.head.bias"]
    torch.testing.assert_close(predictor.forward(params, x), expected, rtol=EXACT, atol=EXACT)


def test_the_discrepancy_of_two_points_has_a_closed_form_and_that_of_equal_sets_is_zero():
    a, b = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, y = 4 * a[:1], 4 * b[:1]
    d = (x - y).square().sum()
    expected = sum(2 - 2 * torch.exp(-d / (2 * width)) for width in (10, 15, 20, 50))
    one = torch.ones(1, dtype=torch.float64)
    torch.testing.assert_close(discrepancy(x, y, one), expected, rtol=EXACT, atol=EXACT)
    assert float(discrepancy(a, a, WEIGHTS)) == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(discrepancy(a, b, WEIGHTS), plain_discrepancy(a, b), rtol=EXACT, atol=EXACT)


def test_padding_has_no_part_in_the_discrepancy():
    a, b = torch.randn(2, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    padded = torch.cat([WEIGHTS, WEIGHTS.new_zeros(2)])
    torch.testing.assert_close(discrepancy(a, b, padded), plain_discrepancy(a[:5], b[:5]), rtol=EXACT, atol=EXACT)


def test_rows_that_cancel_have_no_direction():
    weight = torch.tensor([[[1.0, -2.0], [-1.0, 2.0]], [[3.0, 0.0], [0.0, 4.0]]], dtype=torch.float64)
    assert direction({"head.weight": weight}).tolist() == [[0, 0], pytest.approx([0.6, 0.8])]


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_a_start_of_zeros_stays_finite(backend):
    run = trained("fedcp", model=DNN | {"init": "zeros"}, backend=backend)
    assert all(p.isfinite().all() for p in personalized(run).values())


def test_body_policy_and_global_head_are_sent_and_personal_heads_are_not():
    run = simulation("fedcp", model=DNN)
    shared = run.algorithm.shared(run.state)
    model, policy = 5 * 6 + 6 + 6 * 3 + 3, 2 * 6 * 6 + 6 * 6
    assert shared.bytes_up == shared.bytes_down == 8 * (model + policy)


def test_a_newcomer_keeps_a_head_on_the_servers_parts():
    run = trained({"name": "fedcp", "lam": 3.0}, with_newcomers(), model=DNN)
    task, shared = run.task.of_unseen(), run.state.shared_params
    newcomers = task.everyone(stream="newcomers")
    head = part(task.initial_model(), task.model.head)
    found = unseen_models(run)
    loss = whole_loss(shared, direction_of(head), 3.0)
    for i, batches in samples_of(task, newcomers.clients, newcomers.plan).items():
        own = part(plain.descend(shared | head, batches, loss=loss, trained=MOVING), head)
        expected = shared | own
        assert_close(row_of(found, i), {n: expected[n] for n in found}, EXACT)


def test_models_without_a_body_or_with_another_head_are_refused():
    with pytest.raises(Unsupported, match="fedcp needs a body"):
        simulation("fedcp", model="mlr")
    task = simulation("fedcp", model=DNN).task
    make = lambda: SplitModel(  # noqa: E731
        nn.Sequential(nn.Flatten(), nn.Linear(5, 6)), nn.Sequential(nn.ReLU(), nn.Linear(6, 3))
    )
    entry = ALGORITHMS.get("fedcp")
    with pytest.raises(Unsupported, match="fedcp needs a head that is one linear layer"):
        entry.make(entry.options()).init(dataclasses.replace(task, model=Model(make(), make)))
