"""FedBN: shared layers and own normalizations, on a network with two of them."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.backends.batched import Batched
from engine.backends.loop import Loop
from engine.core.params import row
from engine.core.registry import ALGORITHMS
from engine.models import Model, SplitModel
from engine.task import Task
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

NORMS = ("body.2", "head.0")


def network() -> SplitModel:
    body = nn.Sequential(nn.Flatten(), nn.Linear(5, 6), nn.GroupNorm(2, 6), nn.ReLU())
    return SplitModel(body, nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 3)))


def only_norms() -> SplitModel:
    return SplitModel(nn.Sequential(nn.Flatten(), nn.LayerNorm(3)), nn.LayerNorm(3))


def loss(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = F.linear(x, params["body.1.weight"], params["body.1.bias"])
    z = F.group_norm(z, 2, params["body.2.weight"], params["body.2.bias"]).relu()
    z = F.layer_norm(z, (6,), params["head.0.weight"], params["head.0.bias"])
    return F.cross_entropy(F.linear(z, params["head.1.weight"], params["head.1.bias"]), y)


def after(name: str, rounds: int, make: Callable[[], SplitModel] = network, data=None, backend=Batched, **training):
    """(method, state, task) after some rounds on this network."""
    task: Task = simulation(name, data, **training).task
    model = Model(make(), make)
    task = dataclasses.replace(task, model=model, backend=backend(model), notes=[])
    entry = ALGORITHMS.get(name)
    method = entry.make(entry.options())
    state = method.init(task)
    for round in range(1, rounds + 1):
        state, _ = method.round(state, task.cohort(round), task)
    return method, state, task


def models_of(run) -> plain.Params:
    method, state, task = run
    return dict(method.personalized(state, task).params)


@pytest.mark.parametrize("training", [{}, {"local_epochs": 2, "participation": 0.75}], ids=str)
def test_fedbn_without_normalizations_is_fedavg_with_a_note(training: dict):
    run = trained("fedbn", model={"name": "dnn", "hidden": 6}, **training)
    assert_equal(personalized(run), personalized(trained("fedavg", model={"name": "dnn", "hidden": 6}, **training)))
    shared = run.algorithm.global_model(run.state, run.task)
    assert shared.params is run.algorithm.personalized(run.state, run.task).params
    assert any("fedbn on a model without normalizations is fedavg" in note for note in run.task.notes)


def test_the_shared_layers_of_fedbn_are_those_of_fedavg_in_the_first_round_alone():
    for rounds, is_equal in ((1, True), (2, False)):
        found, expected = after("fedbn", rounds)[1].shared_params, after("fedavg", rounds)[1].global_params
        assert not any(n.startswith(NORMS) for n in found) and len(found) == 4
        assert all(torch.equal(p, expected[n]) == is_equal for n, p in found.items())


def test_a_network_of_normalizations_alone_is_trained_locally():
    data = federation(features=3)
    own, alone = after("fedbn", 2, only_norms, data), after("local_train", 2, only_norms, data)
    assert_equal(models_of(own), models_of(alone))
    assert own[0].shared(own[1]).bytes_up == 0


def test_fedbn_with_one_client_is_plain_sgd():
    data = federation(sizes=(8,))
    assert_equal(models_of(after("fedbn", 2, data=data)), models_of(after("local_train", 2, data=data)))


@pytest.mark.parametrize("backend", [Batched, Loop])
def test_fedbn_averages_all_but_the_normalizations_of_its_participants(backend):
    method, state, task = run = after("fedbn", 2, backend=backend, participation=0.5)
    start = task.initial_model()
    shared = {n: p for n, p in start.items() if not n.startswith(NORMS)}
    own = [{n: p for n, p in start.items() if n.startswith(NORMS)} for _ in SIZES]
    for round in (1, 2):
        cohort = task.cohort(round)
        batches = samples_of(task, cohort.clients, cohort.plan)
        moved = {i: plain.descend(shared | own[i], steps, loss=loss) for i, steps in batches.items()}
        shared = plain.average(moved, SIZES, tuple(shared))
        own = [{n: moved[i][n] for n in p} if i in moved else p for i, p in enumerate(own)]
    assert_close(models_of(run), plain.stack([{n: (shared | p)[n] for n in start} for p in own]), 1e-10)
    assert method.global_model(state, task) is None
    assert method.shared(state).bytes_down == sum(p.nbytes for p in shared.values())


def test_a_newcomer_of_fedbn_keeps_its_normalizations_alone():
    method, state, task = after("fedbn", 2, data=with_newcomers())
    unseen = task.of_unseen()
    cohort = unseen.everyone(stream="newcomers")
    models = method.adapted(state, cohort, unseen).params
    batches, start = samples_of(unseen, cohort.clients, cohort.plan), task.initial_model()
    for i in range(3):
        moved = plain.descend(start | state.shared_params, batches[i], loss=loss)
        assert_close(row(models, i), {n: moved[n] if n.startswith(NORMS) else state.shared_params[n] for n in start})
