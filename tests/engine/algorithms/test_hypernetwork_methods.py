"""pFedHN and PLGU-GHN: rounds and newcomers, computed one client at a time."""

import math

import pytest
import torch

from tests.support.batches import samples_of
from tests.support.builders import assert_close, assert_equal, federation, personalized, simulation, trained
from tests.support.hypernetworks import NETWORK, SMALL, emitted, pairing, product
from tests.support.one_client import Params, batches_of, gradient, loss, moved


def mean(models: list[Params]) -> Params:
    return {n: sum(m[n] for m in models) / len(models) for n in models[0]}


@pytest.mark.parametrize("entry", [{"name": "pfedhn"}, {"name": "plgu_ghn", "rho": 0.4}])
def test_rounds_follow_the_papers(entry):
    run = trained(entry | SMALL, model=NETWORK, rounds=3)
    start = simulation(entry | SMALL, model=NETWORK).state
    psi, v = start.psi, list(start.embeddings)
    for round in (1, 2, 3):
        changes = []
        for i, batches in enumerate(batches_of(run, round)):
            own = received = emitted(psi, v[i])
            for x, y in batches:
                own = moved(own, gradient(own, x, y), 0.1)
            changes.append({n: received[n] - own[n] for n in own})
        at, rho = psi, entry.get("rho", 0.0)
        if rho:
            g = mean([product(psi, v[i], changes[i])[0] for i in range(4)])
            at = {n: p + rho * g[n] / math.sqrt(pairing(g, g)) for n, p in psi.items()}
        pulls = [product(at, v[i], changes[i]) for i in range(4)]
        psi = moved(psi, mean([p for p, _ in pulls]), 0.3)
        v = [v[i] - 0.3 * pulls[i][1] for i in range(4)]
    assert_close(run.state.psi, psi, 1e-10)
    torch.testing.assert_close(run.state.embeddings, torch.stack(v), rtol=1e-10, atol=1e-10)
    models = [emitted(psi, row) for row in v]  # after the server's step
    assert_close(personalized(run), {n: torch.stack([m[n] for m in models]) for n in models[0]}, 1e-10)
    assert run.algorithm.global_model(run.state, run.task) is None


@pytest.mark.parametrize("name", ["pfedhn", "plgu_ghn"])
def test_the_server_takes_descent_steps(name):
    """The paper prints the opposite sign, which would ascend."""
    entry = {"name": name, **SMALL, "hn_lr": 1.0}
    results = list(simulation(entry, model=NETWORK, rounds=25, batch_size="full").rounds())
    assert results[-1].arrays["train_loss"].mean() < 0.8 * results[1].arrays["train_loss"].mean()


@pytest.mark.parametrize("name", ["pfedhn", "plgu_ghn"])
def test_embeddings_of_absent_clients_do_not_change(name):
    run = simulation({"name": name, **SMALL}, model=NETWORK, participation=0.5)
    cohort = run.task.cohort(1)
    after, _ = run.algorithm.round(run.state, cohort, run.task)
    stays = (after.embeddings == run.state.embeddings).all(1)
    assert [i for i in range(4) if not stays[i]] == sorted(cohort.clients.tolist())


@pytest.mark.parametrize("name", ["pfedhn", "plgu_ghn"])
def test_newcomers_fit_an_embedding_to_the_frozen_network(name):
    run = trained({"name": name, **SMALL, "hn_lr": 1.0}, model=NETWORK)
    psi, rows = {n: p.clone() for n, p in run.state.psi.items()}, run.state.embeddings.clone()
    newcomers = simulation(name, federation((5, 8, 6), seed=7), model=NETWORK, batch_size="full").task
    adapted = run.algorithm.adapted(run.state, newcomers.everyone(stream="newcomers"), newcomers)
    assert_equal(run.state.psi, psi)
    assert torch.equal(run.state.embeddings, rows)
    middle = emitted(psi, rows.mean(0))
    for i in range(3):
        x, y = newcomers.data.train.of_client(i)
        assert loss(adapted.of_client(i), x, y) < loss(middle, x, y)


@pytest.mark.parametrize("entry", [{"name": "pfedhn"}, {"name": "plgu_ghn", "rho": 0.4}])
@pytest.mark.parametrize("clip", [50.0, 0.01])
def test_a_newcomers_embedding_takes_five_server_steps_from_the_mean(entry, clip):
    run = trained(entry | SMALL | {"clip": clip}, model=NETWORK)
    task = simulation("pfedhn", federation((5, 8), seed=7), model=NETWORK).task
    newcomers = task.everyone(stream="newcomers")
    batches = samples_of(task, newcomers.clients, newcomers.plan)
    adapted = run.algorithm.adapted(run.state, newcomers, task)
    for i in range(2):
        v = run.state.embeddings.mean(0)
        for _ in range(5):
            own = received = emitted(run.state.psi, v)
            for x, y in batches[i]:
                own = moved(own, gradient(own, x, y), 0.1)
            pull = product(run.state.psi, v, {n: received[n] - own[n] for n in own})[1]
            v = v - 0.3 * pull * min(1.0, clip / float(pull.norm()))
        assert_close(adapted.of_client(i), emitted(run.state.psi, v), 1e-10)
