"""pFedHN and PLGU-GHN: what the server network emits, its derivatives, and rounds computed one client at a time."""

import math

import pytest
import torch

from engine.hypernetwork import emit, pull_back
from engine.ops import map_params
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, assert_equal, federation, personalized, simulation, trained
from tests.support.one_client import Params, batches_of, gradient, loss, moved

NETWORK = {"name": "dnn", "hidden": 4}
SMALL = {"hidden": 5, "hidden_layers": 2, "embed_dim": 3, "hn_lr": 0.3}


def started(**hparams):
    """A run's state before training, and its task."""
    run = simulation({"name": "pfedhn", **SMALL, **hparams}, model=NETWORK)
    return run.state, run.task


def pairing(a: Params, b: Params) -> float:
    return sum(float((a[n] * b[n]).sum()) for n in a)


# --- The server network


def test_hidden_layers_are_relu_and_every_tensor_has_a_linear_output():
    psi = {
        "hidden.0.weight": torch.tensor([[2.0], [-1.0]]),
        "hidden.0.bias": torch.tensor([1.0, 0.0]),
        "output.w.weight": torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
        "output.w.bias": torch.tensor([[0.0, -3.0]]),
    }
    models = emit(psi, torch.tensor([[1.0], [-2.0]]))
    assert models["w"].tolist() == [[[3.0, -3.0]], [[0.0, -1.0]]]


@pytest.mark.parametrize(("sizes", "dim"), [(SIZES, 2), ((4,) * 7, 2), ((4,) * 9, 3)])
def test_embeddings_grow_with_the_number_of_clients(sizes, dim):
    run = simulation("pfedhn", federation(sizes))
    assert run.state.embeddings.shape == (len(sizes), dim)


def test_the_network_starts_like_linear_layers_and_by_the_seed_alone():
    state, task = started()
    shapes = {n: tuple(p.shape) for n, p in state.psi.items()}
    assert shapes["hidden.0.weight"] == (5, 3) and shapes["hidden.1.weight"] == (5, 5)
    assert {n: shapes[f"output.{n}.bias"] for n in task.model.names} == {
        n: tuple(p.shape) for n, p in task.initial_model().items()
    }
    assert 0.9 / math.sqrt(5) < state.psi["output.body.1.weight.weight"].abs().max() <= 1 / math.sqrt(5)
    assert_equal(state.psi, started()[0].psi)
    other = simulation({"name": "pfedhn", **SMALL}, model=NETWORK, seed=1).state
    assert not torch.equal(other.psi["hidden.0.weight"], state.psi["hidden.0.weight"])


def test_products_with_the_jacobian_are_those_of_finite_differences():
    state, _ = started()
    rows = state.embeddings[[2, 0, 3]]
    noise = torch.Generator().manual_seed(3)
    change = map_params(lambda p: torch.randn(p.shape, generator=noise, dtype=p.dtype), emit(state.psi, rows))
    pull, h = pull_back(state.psi, rows, change), 1e-6
    for name, p in state.psi.items():
        direction = torch.randn(p.shape, generator=noise, dtype=p.dtype)
        up, down = (pairing(change, emit({**state.psi, name: p + s * h * direction}, rows)) for s in (1, -1))
        assert float((pull.psi[name] * direction).sum()) == pytest.approx((up - down) / (2 * h) / 3, rel=1e-6, abs=1e-9)
    for place in range(rows.numel()):
        push = torch.zeros(rows.numel(), dtype=rows.dtype).index_fill(0, torch.tensor(place), h).view_as(rows)
        up, down = (pairing(change, emit(state.psi, rows + s * push)) for s in (1, -1))
        assert float(pull.embeddings.flatten()[place]) == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-9)


# --- Rounds


def emitted(psi: Params, v: torch.Tensor) -> Params:
    """One client's model, by the docstring's equations."""
    z = v
    for layer in range(2):
        z = (psi[f"hidden.{layer}.weight"] @ z + psi[f"hidden.{layer}.bias"]).relu()
    outputs = [n.removesuffix(".bias") for n in psi if n.startswith("output.") and n.endswith(".bias")]
    return {n.removeprefix("output."): psi[f"{n}.weight"] @ z + psi[f"{n}.bias"] for n in outputs}


def product(psi: Params, v: torch.Tensor, change: Params) -> tuple[Params, torch.Tensor]:
    """(J^T change, K^T change) of one client."""
    variables, v = {n: p.clone().requires_grad_() for n, p in psi.items()}, v.clone().requires_grad_()
    along = sum((w * change[n]).sum() for n, w in emitted(variables, v).items())
    *of_psi, of_v = torch.autograd.grad(along, [*variables.values(), v])
    return dict(zip(psi, of_psi, strict=True)), of_v


def mean(models: list[Params]) -> Params:
    return {n: sum(m[n] for m in models) / len(models) for n in models[0]}


@pytest.mark.parametrize("entry", [{"name": "pfedhn"}, {"name": "plgu_ghn", "rho": 0.4}])
def test_rounds_as_the_documents_write_them(entry):
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


@pytest.mark.parametrize("settings", [{}, {"participation": 0.5, "momentum": 0.5}, {"local_epochs": 2}])
def test_plgu_ghn_without_radius_is_pfedhn(settings):
    plain = trained({"name": "pfedhn", **SMALL}, model=NETWORK, rounds=3, **settings).state
    flat = trained({"name": "plgu_ghn", "rho": 0, **SMALL}, model=NETWORK, rounds=3, **settings)
    assert_equal(flat.state.psi, plain.psi)
    assert torch.equal(flat.state.embeddings, plain.embeddings)
    assert any("pfedhn" in note for note in flat.task.notes)


def test_a_radius_moves_the_server_elsewhere():
    plain = trained({"name": "pfedhn", **SMALL}, model=NETWORK).state
    flat = trained({"name": "plgu_ghn", "rho": 0.5, **SMALL}, model=NETWORK).state
    assert not torch.allclose(plain.psi["hidden.0.weight"], flat.psi["hidden.0.weight"])


@pytest.mark.parametrize("name", ["pfedhn", "plgu_ghn"])
def test_the_server_descends(name):
    """The document prints the opposite sign, which climbs."""
    entry = {"name": name, **SMALL, "hn_lr": 1.0}
    results = list(simulation(entry, model=NETWORK, rounds=25, batch_size="full").rounds())
    assert results[-1].arrays["train_loss"].mean() < 0.8 * results[1].arrays["train_loss"].mean()


@pytest.mark.parametrize("name", ["pfedhn", "plgu_ghn"])
def test_embeddings_of_others_stay_where_they_are(name):
    run = simulation({"name": name, **SMALL}, model=NETWORK, participation=0.5)
    cohort = run.task.cohort(1)
    after, _ = run.algorithm.round(run.state, cohort, run.task)
    stays = (after.embeddings == run.state.embeddings).all(1)
    assert [i for i in range(4) if not stays[i]] == sorted(cohort.clients.tolist())


def test_a_long_server_step_is_clipped():
    run = simulation({"name": "pfedhn", **SMALL, "clip": 1e-3}, model=NETWORK)
    after, _ = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    steps = [*map_params(torch.sub, after.psi, run.state.psi).values(), after.embeddings - run.state.embeddings]
    assert math.sqrt(sum(float(s.square().sum()) for s in steps)) == pytest.approx(0.3 * 1e-3)


def test_models_travel_and_the_network_never_does():
    results = list(simulation("pfedhn", model=NETWORK, participation=0.5).rounds())
    size = sum(p.nbytes for p in started()[1].initial_model().values())
    assert results[1].scalars["bytes_up"] == results[1].scalars["bytes_down"] == 2 * size


def test_a_zero_start_is_said_to_have_no_effect():
    notes = simulation("pfedhn", model={"name": "mlr", "init": "zeros"}).task.notes
    assert any("no effect" in note for note in notes)


def test_a_network_of_many_numbers_is_noted(monkeypatch):
    monkeypatch.setattr("engine.hypernetwork.LARGE", 100)
    assert any("1.8e+03 numbers" in note for note in simulation("pfedhn").task.notes)  # 18 parameters, hidden 100


# --- Newcomers


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


def test_a_newcomer_is_fitted_as_if_it_came_alone():
    run = trained({"name": "pfedhn", **SMALL, "clip": 0.01}, model=NETWORK)
    task = simulation("pfedhn", federation((5, 8, 6), seed=7), model=NETWORK, local_epochs=2).task
    together = run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task)
    pair = simulation("pfedhn", federation((5, 8), seed=7), model=NETWORK, local_epochs=2).task
    fewer = run.algorithm.adapted(run.state, pair.everyone(stream="newcomers"), pair)
    assert_close({n: p[:2] for n, p in together.params.items()}, dict(fewer.params), 1e-12)
