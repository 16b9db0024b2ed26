"""FedAS: alignment and the weights of the bodies, computed with plain autograd."""

import numpy as np
import pytest
import torch

from engine.core.errors import Unsupported
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.settings import DNN
from tests.support.split_models import EXACT, body_and_head, row_of

FEDAS = {"name": "fedas", "align_lr": 0.5}


def class_means(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> dict[int, torch.Tensor]:
    features = plain.hidden(params, x)
    return {c: features[y == c].mean(0) for c in y.unique().tolist()}


def alignment_loss(means: dict[int, torch.Tensor]):
    def loss(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        features = plain.hidden(params, x)
        return sum(((features[y == c] - means[c]) ** 2).mean() for c in y.unique().tolist())

    return loss


def squared_norm(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> float:
    variables = {n: p.clone().requires_grad_() for n, p in params.items()}
    slopes = torch.autograd.grad(plain.cross_entropy(variables, x, y), list(variables.values()))
    return float(sum(slope.square().sum() for slope in slopes))


@pytest.mark.parametrize("align_steps", [4, "training"])
@pytest.mark.parametrize("training", [{"local_steps": 3}, {"local_epochs": 1}])
def test_rounds_equal_a_loop_over_clients_with_plain_autograd(align_steps, training):
    run = simulation(FEDAS | {"align_steps": align_steps}, model=DNN, rounds=3, participation=0.75, **training)
    results, task = list(run.rounds()), run.task
    phi, head = body_and_head(run)
    own, times = [phi | head] * 4, [0] * 4
    for round in (1, 2, 3):
        cohort = task.cohort(round)
        steps = {"steps": 4} if align_steps == 4 else {}
        extra = task.cohort_of(list(cohort.client_ids), round, "align", **steps)
        passes = task.passes(cohort.client_ids, round, "fisher")
        batches, aligning, whole = (samples_of(task, c.clients, c.plan) for c in (cohort, extra, passes))
        models, t, cost = {}, {}, cohort.plan.gradient_evaluations
        for i in cohort.client_ids:
            start = own[i] | phi
            if times[i]:
                means = class_means(own[i], *task.data.train.of_client(i))
                start = plain.descend(start, aligning[i], 0.5, alignment_loss(means), ("body",))
                cost += sum(len(y) for _, y in aligning[i])
            models[i] = plain.descend(start, batches[i])
            t[i] = sum(squared_norm(models[i], x, y) for x, y in whole[i])
            own[i], times[i] = models[i], times[i] + 1
        phi = {n: sum(t[i] * models[i][n] for i in models) / sum(t.values()) for n in phi}
        weight = results[round].arrays["diagnostics.weight"]
        expected = [t.get(i, np.nan) / sum(t.values()) for i in range(4)]
        assert weight.tolist() == pytest.approx(expected, rel=EXACT, nan_ok=True)
        assert results[round].scalars["gradient_evaluations"] == cost + sum(SIZES[i] for i in models)
    assert_close(run.state.shared_params, phi, EXACT)
    assert_close(personalized(run), plain.stack(own), EXACT)
    assert run.state.participations.tolist() == times and 3 in times and min(times) < 3


def test_without_alignment_and_weighted_by_samples_it_trains_as_fedper():
    method, settings = {"name": "fedas", "align_steps": 0, "weights": "samples"}, {"rounds": 3, "participation": 0.75}
    run, fedper = (trained(m, model=DNN, **settings) for m in (method, "fedper"))
    assert_equal(run.state.shared_params, fedper.state.shared_params)
    heads = {n: p for n, p in run.state.personal_params.items() if n.startswith("head")}
    assert_equal(heads, fedper.state.personal_params)


def test_with_full_batches_the_weights_are_squared_norms_of_gradients():
    run = simulation("fedas", model=DNN, batch_size="full", rounds=1)
    *_, result = run.rounds()
    norms = [squared_norm(row_of(personalized(run), i), *run.task.data.train.of_client(i)) for i in range(4)]
    expected = [norm / sum(norms) for norm in norms]
    assert result.arrays["diagnostics.weight"].tolist() == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize(("sizes", "moves"), [((1,), False), ((6,), True)])
def test_alignment_with_the_own_body_moves_classes_of_several_samples_only(sizes, moves):
    """The only client receives its own body; with one sample a class, each feature is its class mean."""
    aligned, plainly = (
        trained(FEDAS | {"align_steps": steps}, federation(sizes), model=DNN, batch_size="full") for steps in (2, 0)
    )
    gap = max(float((p - personalized(plainly)[n]).abs().max()) for n, p in personalized(aligned).items())
    assert gap > 1e-4 if moves else gap < 1e-14


def test_the_body_of_a_single_participant_is_taken_as_it_is():
    run = simulation("fedas", model=DNN, participation=0.25, rounds=1)
    *_, result = run.rounds()
    (client,) = result.cohort
    own = row_of(personalized(run), client)
    assert_equal(run.state.shared_params, {n: own[n] for n in run.state.shared_params})
    assert result.arrays["diagnostics.weight"][client] == 1


@pytest.mark.parametrize("value", [0.0, torch.inf, torch.nan])
def test_without_usable_gradients_bodies_are_weighted_by_samples(value, monkeypatch):
    monkeypatch.setattr("engine.algorithms.fedas._fisher", lambda models, cohort, task: cohort.weights * value)
    run = trained("fedas", model=DNN, rounds=1)
    assert_close(run.state.shared_params, trained("fedper", model=DNN, rounds=1).state.shared_params, 0)


def test_fedas_sends_the_body_and_a_number():
    *_, result = simulation("fedas", model=DNN).rounds()
    body = 8 * (5 * 6 + 6)
    assert result.scalars["bytes_down"] == 4 * body and result.scalars["bytes_up"] == 4 * (body + 8)
    *_, result = simulation({"name": "fedas", "weights": "samples"}, model=DNN).rounds()
    assert result.scalars["bytes_up"] == result.scalars["bytes_down"]


def test_a_newcomer_trains_the_received_body_and_the_common_head():
    run = trained(FEDAS, with_newcomers(), model=DNN, rounds=3)
    task = run.task.of_unseen()
    newcomers = task.everyone(stream="newcomers")
    found = run.algorithm.adapted(run.state, newcomers, task).params
    start = run.task.initial_model() | run.state.shared_params
    for i, batches in samples_of(task, newcomers.clients, newcomers.plan).items():
        assert_close(row_of(found, i), plain.descend(start, batches), EXACT)


def test_fedas_needs_a_body():
    with pytest.raises(Unsupported, match="fedas needs a body"):
        simulation("fedas", model="mlr")
