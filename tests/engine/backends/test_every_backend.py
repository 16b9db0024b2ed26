"""Gradients of all backends against autograd, and second derivatives against finite differences."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from engine.backends import (
    Affine,
    OnFeatures,
    add_silently,
    choose_backend,
    linear_head_gradients,
    mean_cross_entropy,
    of_classes,
)
from engine.backends.batched import Batched
from engine.backends.fused import Fused, linear_chain
from engine.backends.loop import Loop
from engine.core.errors import Unsupported
from engine.core.params import clone
from engine.federation.batches import Batch
from engine.models import Model
from tests.support.builders import assert_close, federation, personalized, trained
from tests.support.networks import batch_of, model_of, stacked

CPU = torch.device("cpu")


def gradient_by_hand(model: Model, params: dict, batch: Batch, client: int) -> tuple[torch.Tensor, dict]:
    own = {n: p[client].clone().requires_grad_() for n, p in params.items()}
    count = batch.counts[client]
    loss = F.cross_entropy(model.logits(own, batch.x[client, :count]), batch.y[client, :count])
    penalty = sum(l2 / 2 * own[n].square().sum() for n, l2 in model.l2_of.items())
    gradients = torch.autograd.grad(loss + penalty, list(own.values()))
    return loss.detach(), dict(zip(own, gradients, strict=True))


CASES = [("mlr", {}, 3), ("mlr", {"l2": 0.3}, 3), ("dnn", {"hidden": 4}, 3), ("logistic", {"l2": 0.1}, 2)]


@pytest.mark.parametrize("backend", [Loop, Batched, Fused])
@pytest.mark.parametrize(("name", "options", "classes"), CASES)
@pytest.mark.parametrize("counts", [(4, 4, 4), (5, 3, 1)])
def test_accumulate_adds_the_gradient(backend, name, options, classes, counts):
    model = model_of(name, classes=classes, **options)
    maker = backend(model, linear_chain(model.module)) if backend is Fused else backend(model)
    params, batch = stacked(model, len(counts)), batch_of(counts, classes=classes)
    out = {n: torch.full_like(p, 2.0) for n, p in params.items()}
    losses = maker.accumulate(out, params, batch, -0.5, 0.25)
    for client in range(len(counts)):
        loss, gradient = gradient_by_hand(model, params, batch, client)
        torch.testing.assert_close(losses[client], loss)
        for n, g in gradient.items():
            torch.testing.assert_close(out[n][client], 0.5 - 0.5 * g)


@pytest.mark.parametrize("backend", [Loop, Batched, Fused])
@pytest.mark.parametrize(("name", "options", "classes"), CASES)
def test_accumulating_into_the_parameters_is_an_sgd_step(backend, name, options, classes):
    model = model_of(name, classes=classes, **options)
    maker = backend(model, linear_chain(model.module)) if backend is Fused else backend(model)
    params, batch = stacked(model, 2), batch_of((3, 2), classes=classes)
    expected = [gradient_by_hand(model, params, batch, i)[1] for i in range(2)]
    stepped = clone(params)
    maker.accumulate(stepped, stepped, batch, -0.1, 0.9)
    for n, p in params.items():
        torch.testing.assert_close(stepped[n], 0.9 * p - 0.1 * torch.stack([e[n] for e in expected]))


@pytest.mark.parametrize("backend", [Loop, Batched, Fused])
@pytest.mark.parametrize(("name", "options", "classes"), CASES)
def test_clients_may_differ_in_what_the_gradient_is_added_to(backend, name, options, classes):
    model = model_of(name, classes=classes, **options)
    maker = backend(model, linear_chain(model.module)) if backend is Fused else backend(model)
    params, batch = stacked(model, 2), batch_of((3, 2), classes=classes)
    expected = [gradient_by_hand(model, params, batch, i)[1] for i in range(2)]
    first = Affine(torch.tensor([0.5, 2.0], dtype=torch.float64), {n: p + 1 for n, p in params.items()})
    for out in (clone(params), {n: torch.full_like(p, 3.0) for n, p in params.items()}):
        before, at = clone(out), out if torch.equal(next(iter(out.values())), next(iter(params.values()))) else params
        maker.accumulate(out, at, batch, -0.1, first)
        for i, factor in enumerate((0.5, 2.0)):
            for n, p in before.items():
                torch.testing.assert_close(out[n][i], factor * p[i] + params[n][i] + 1 - 0.1 * expected[i][n])


@pytest.mark.parametrize("backend", [Loop, Batched, Fused])
@pytest.mark.parametrize("part", ["body", "head"])
def test_only_trained_parts_are_written(backend, part):
    model = model_of("dnn", hidden=4)
    maker = backend(model, linear_chain(model.module)) if backend is Fused else backend(model)
    params, batch = stacked(model, 2), batch_of((3, 3))
    out = {n: torch.zeros_like(params[n]) for n in getattr(model, part)}
    maker.accumulate(out, params, batch, 1.0, 0.0)
    for client in range(2):
        _, gradient = gradient_by_hand(model, params, batch, client)
        for n, values in out.items():
            torch.testing.assert_close(values[client], gradient[n])


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
@pytest.mark.parametrize(("name", "options", "classes"), CASES)
def test_hessian_vector_products_match_gradient_differences(backend, name, options, classes):
    model = model_of(name, classes=classes, **options)
    maker, params, batch = choose_backend(backend, model, CPU), stacked(model, 2), batch_of((4, 3), classes=classes)
    vector = {n: torch.randn_like(p) for n, p in params.items()}
    product, step = maker.hessian_vector(params, vector, batch), 1e-5
    gradients = []
    for sign in (1, -1):
        out = {n: torch.zeros_like(p) for n, p in params.items()}
        maker.accumulate(out, {n: p + sign * step * vector[n] for n, p in params.items()}, batch, 1.0, 0.0)
        gradients.append(out)
    for n, value in product.items():
        torch.testing.assert_close(value, (gradients[0][n] - gradients[1][n]) / (2 * step), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backend", [Loop, Batched, Fused])
def test_a_custom_objective_gets_one_client_at_a_time(backend):
    model = model_of("dnn", hidden=4)
    maker = backend(model, linear_chain(model.module)) if backend is Fused else backend(model)
    params, batch = stacked(model, 3), batch_of((4, 4, 4))

    def squared_features(model, own, x, y, weight, extras):
        return (model.features(own, x).square().sum(1) * weight).sum() * extras["scale"]

    out = {n: torch.zeros_like(p) for n, p in params.items()}
    losses = maker.accumulate(out, params, batch, 1.0, 0.0, squared_features, {"scale": torch.tensor([1.0, 0.0, 2.0])})
    assert losses[1] == 0 and float(out["body.1.weight"][1].abs().max()) == 0
    assert float(out["head.weight"].abs().max()) == 0
    assert float(out["body.1.weight"][2].abs().max()) > 0


def scaled(model, params, features, y, weight, extras):
    """A loss of stacked clients, with a parameter that a method adds."""
    logits = model.stacked_head_logits(params, features * params["scale"][:, None, None])
    return mean_cross_entropy(logits, y, weight) + extras["lam"] * (features.sum(-1) * weight).sum(-1)


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
@pytest.mark.parametrize(("name", "options"), [("mlr", {"l2": 0.3}), ("dnn", {"hidden": 4})])
@pytest.mark.parametrize("trained", ["all", "head"])
def test_an_objective_on_features_has_the_gradient_of_autograd(backend, name, options, trained):
    model = model_of(name, **options)
    params = {**stacked(model, 2), "scale": torch.tensor([2.0, 3.0], dtype=torch.float64)}
    batch, lam = batch_of((4, 2)), torch.tensor([0.5, 1.0], dtype=torch.float64)
    names = tuple(params) if trained == "all" else model.head
    stepped = clone(params)
    out = {n: stepped[n] for n in names}
    maker = choose_backend(backend, model, CPU)
    objective = OnFeatures(scaled, l2={"scale": 0.7})
    losses = maker.accumulate(out, stepped, batch, -0.1, 0.9, objective, {"lam": lam})
    for client, count in enumerate(batch.counts):
        own = {n: p[client].clone().requires_grad_(n in names) for n, p in params.items()}
        features = model.features(own, batch.x[client, :count])
        loss = F.cross_entropy(model.head_logits(own, features * own["scale"]), batch.y[client, :count])
        loss = loss + lam[client] * features.sum(-1).mean()
        penalty = sum((model.l2_of | objective.l2).get(n, 0) / 2 * own[n].square().sum() for n in names)
        gradients = torch.autograd.grad(loss + penalty, [own[n] for n in names])
        torch.testing.assert_close(losses[client], loss.detach())
        for n, gradient in zip(names, gradients, strict=True):
            torch.testing.assert_close(stepped[n][client], 0.9 * params[n][client] - 0.1 * gradient)
    assert all(torch.equal(stepped[n], p) for n, p in params.items() if n not in names)


def entropy(model, params, features, y, weight, extras):
    return mean_cross_entropy(model.stacked_head_logits(params, features), y, weight)


def gradients(model, params, features, y, weight, extras):
    return linear_head_gradients(params, features, y, weight)


@pytest.mark.parametrize("part", ["all", "body", "head"])
@pytest.mark.parametrize("is_own", [True, False])
def test_the_loop_takes_given_gradients_where_it_may(part, is_own):
    """``out`` is ``params`` itself in a step, and another one with momentum or clipping."""
    model = replace(model_of("cnn", shape=(1, 16, 16), hidden=8), l2=0.3)
    params, batch = stacked(model, 3), batch_of((3, 2, 1), shape=(1, 16, 16))
    names = {"all": model.names, "body": model.body, "head": model.head}[part]
    before = Affine(torch.tensor([0.5, 2.0, 1.0]).double(), {n: torch.full_like(p, 0.25) for n, p in params.items()})
    l2 = {"head.bias": 0.7, "head.weight": 0.5}
    for beta in (0.0, 0.9, before):
        results = []
        for maker, objective in (
            (Loop(model), OnFeatures(entropy, l2)),
            (Loop(model, uses_given_gradients=True), OnFeatures(None, l2, gradients)),
        ):
            own = clone(params)
            out = {n: own[n] if is_own else torch.full_like(own[n], 2.0) for n in names}
            results.append((maker.accumulate(out, own, batch, -0.1, beta, objective), out, own))
        torch.testing.assert_close(results[1], results[0])
        assert all(torch.equal(results[1][2][n], p) for n, p in params.items() if n not in names or not is_own)


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_the_l2_terms_of_model_and_objective_add_up(backend):
    model = replace(model_of("dnn", hidden=4), l2=0.3)
    params, batch = stacked(model, 2), batch_of((4, 2))
    out = [{n: torch.zeros_like(p) for n, p in params.items()} for _ in range(2)]
    for l2, gradient in zip(({}, {"head.weight": 0.5}), out, strict=True):
        choose_backend(backend, model, CPU).accumulate(gradient, params, batch, 1.0, 0.0, OnFeatures(entropy, l2))
    torch.testing.assert_close(out[1]["head.weight"] - out[0]["head.weight"], 0.5 * params["head.weight"])


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ({"name": "gpfl"}, {}),
        ({"name": "gpfl", "mlg": "frobenius"}, {"momentum": 0.5, "weight_decay": 0.1, "clip_norm": 0.5}),
        ({"name": "fedcp"}, {}),
        ({"name": "fedcp", "lam": 0}, {"momentum": 0.5}),
        ({"name": "fedphp"}, {"clip_norm": 0.5}),
        ({"name": "fedrod"}, {}),
    ],
)
def test_the_gradients_of_a_method_are_those_of_the_reference_with_convolutions(method, options, monkeypatch):
    options = {"model": {"name": "cnn", "hidden": 6}, "participation": 0.75} | options
    data = federation(features=256, shape=(1, 16, 16))
    expected = personalized(trained(method, data, backend="loop", **options))
    monkeypatch.delattr(OnFeatures, "__call__")  # which autograd would differentiate
    assert_close(personalized(trained(method, data, backend="auto", **options)), expected, 1e-8)


def test_convolutions_agree_between_backends_in_double_precision():
    model = model_of("cnn", shape=(1, 16, 16), hidden=8)
    params, batch = stacked(model, 2), batch_of((3, 2), shape=(1, 16, 16))
    outs = []
    for maker in (Loop(model), Batched(model)):
        out = {n: torch.zeros_like(p) for n, p in params.items()}
        maker.accumulate(out, params, batch, 1.0, 0.0)
        outs.append(out)
    for n in params:
        torch.testing.assert_close(outs[0][n], outs[1][n])


@pytest.mark.parametrize("name", ["mlr", "dnn", "logistic"])
def test_stacked_logits_are_each_clients_own(name):
    classes = 2 if name == "logistic" else 3
    model = model_of(name, classes=classes)
    params, x = stacked(model, 3), batch_of((4, 4, 4), classes=classes).x
    for maker in (Loop(model), Batched(model), Fused(model, linear_chain(model.module))):
        logits = maker.logits(model, params, x)
        for i in range(3):
            torch.testing.assert_close(logits[i], model.logits({n: p[i] for n, p in params.items()}, x[i]))


def test_auto_uses_fused_for_linear_chains_and_the_loop_with_given_gradients_for_convolutions():
    cnn = model_of("cnn", shape=(1, 16, 16))
    rounded = replace(cnn, rounded_to=torch.bfloat16)
    assert choose_backend("auto", model_of("dnn"), CPU).name == "fused"
    assert choose_backend("auto", cnn, CPU) == Loop(cnn, uses_given_gradients=True)
    assert choose_backend("auto", rounded, CPU) == Loop(rounded)
    assert choose_backend("loop", cnn, CPU) == Loop(cnn)
    assert linear_chain(cnn.module) is None


def test_bfloat16_is_computed_by_any_backend_but_fused():
    rounded = replace(model_of("dnn"), rounded_to=torch.bfloat16)
    assert choose_backend("auto", rounded, CPU).name == "batched"
    with pytest.raises(Unsupported, match="has no bfloat16; use backend: auto"):
        choose_backend("fused", rounded, CPU)


def test_fused_refuses_unsupported_models():
    with pytest.raises(Unsupported, match="backend: auto"):
        choose_backend("fused", model_of("cnn", shape=(1, 16, 16)), CPU)


def test_a_silent_term_changes_the_gradient_but_not_the_value():
    w = torch.tensor(3.0, requires_grad=True)
    loss = add_silently(w.square(), 10 * w)
    loss.backward()
    assert loss.item() == 9.0 and w.grad.item() == 16.0


def test_the_entries_of_the_classes_are_those_of_each_clients_labels():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert of_classes(values, torch.tensor([[1, 1, 0], [0, 1, 0]])).tolist() == [[2.0, 2.0, 1.0], [3.0, 4.0, 3.0]]
    rows = of_classes(values[..., None].expand(2, 2, 3), torch.tensor([[1], [0]]))
    assert rows.tolist() == [[[2.0] * 3], [[3.0] * 3]]


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_backends_train_parameters_that_a_method_adds(backend):
    model = model_of("mlr", l2=0.5)
    params = {**stacked(model, 2), "scale": torch.tensor([2.0, 3.0], dtype=torch.float64)}
    out = {"scale": torch.ones(2, dtype=torch.float64)}
    objective = lambda model, own, x, y, weight, extras: own["scale"].square()  # noqa: E731
    losses = choose_backend(backend, model, CPU).accumulate(out, params, batch_of((3, 2)), -0.5, 0.5, objective)
    assert losses.tolist() == [4.0, 9.0] and out["scale"].tolist() == [0.5 - 2.0, 0.5 - 3.0]
