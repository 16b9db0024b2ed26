"""FedSAM, PLGU-LF and PLGU-GRep: perturbations with known answers, identities, and rounds one client at a time."""

import math

import pytest
import torch
from torch import nn

from engine.errors import Unsupported
from engine.models import Model, SplitModel
from engine.sharpness import layer_scores, most_personal, uphill, uphill_by_layer
from tests.support.builders import (
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
)
from tests.support.one_client import Params, batches_of, gradient, loss, moved

NETWORK = {"name": "dnn", "hidden": 6}
DEEP = {"name": "har_mlp", "hidden": 6}  # two layers in the body
ALIKE = (6, 6, 6, 6)


def layers_of(params: Params) -> list[tuple[str, str]]:
    return [(f"{n}.weight", f"{n}.bias") for n in (m.removesuffix(".weight") for m in params if m.endswith(".weight"))]


def scores_of(theta: Params, w: Params) -> list[float]:
    """Equation 6 of the tensors in ``theta``, normalised."""
    far = [
        math.sqrt(sum(float(((theta[n] - w[n]) ** 2).sum()) for n in names)) / sum(w[n].numel() for n in names)
        for names in layers_of(theta)
    ]
    return [f / sum(far) for f in far] if sum(far) else [1 / len(far)] * len(far)


def perturbation(g: Params, scores: list[float], rho: float, p: float) -> Params:
    """Equation 5, as it stands but for the exponent."""
    q = 1 / (1 - 1 / p)
    norm = sum((t.abs() ** q).sum() for t in g.values()) ** (1 / p)
    score_of = {n: s for names, s in zip(layers_of(g), scores, strict=True) for n in names}
    return {n: rho * score_of[n] * t.sign() * t.abs() ** (q - 1) / norm for n, t in g.items()}


# --- Perturbations


def test_sam_goes_up_the_gradient_by_rho():
    eps = uphill({"a": torch.tensor([[3.0], [0.0]]), "b": torch.tensor([[[4.0, 0.0]], [[0.0, 0.0]]])}, 0.5)
    assert_close(eps, {"a": torch.tensor([[0.3], [0.0]]), "b": torch.tensor([[[0.4, 0.0]], [[0.0, 0.0]]])}, 1e-6)


@pytest.mark.parametrize("p", [1.01, 1.5, 2.0, 3.0, 50.0])
def test_no_perturbation_of_that_length_raises_the_linearised_loss_more(p):
    """Hoelder: the largest <g, eps> with ||eps||_p = rho is rho ||g||_q."""
    drawn = torch.randn(2, 17, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = {"a": drawn[:, :12].view(2, 3, 4), "b": drawn[:, 12:]}
    eps = uphill(g, 0.7, p)
    flat = lambda params: torch.cat([t.flatten(1) for t in params.values()], 1)  # noqa: E731
    torch.testing.assert_close(flat(eps).norm(p, dim=1), torch.full((2,), 0.7, dtype=torch.float64))
    torch.testing.assert_close((flat(eps) * flat(g)).sum(1), 0.7 * flat(g).norm(p / (p - 1), dim=1))


@pytest.mark.parametrize("size", [1e-38, 1e38])
def test_tiny_and_huge_gradients_give_the_same_perturbation(size):
    g = {"a": torch.tensor([[1.0, -2.0, 0.5]])}
    assert_close(uphill({"a": g["a"] * size}, 1.0, 1.2), uphill(g, 1.0, 1.2), 1e-5)


def test_each_layer_is_perturbed_by_its_score():
    g = {n: torch.ones(2, 2) for n in "abc"}
    eps = uphill_by_layer(g, torch.tensor([[0.25, 0.75], [1.0, 0.0]]), (("a",), ("b", "c")), 1.0)
    whole = 1 / math.sqrt(6)
    expected = {"a": [[0.25] * 2, [1.0] * 2], "b": [[0.75] * 2, [0.0] * 2], "c": [[0.75] * 2, [0.0] * 2]}
    assert_close(eps, {n: torch.tensor(t) * whole for n, t in expected.items()}, 1e-6)


def test_scores_are_distances_per_parameter_and_sum_to_one():
    w = {"a": torch.zeros(2, 2), "b": torch.zeros(2, 3), "c": torch.zeros(2, 1)}
    theta = {"a": torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "b": torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]),
             "c": torch.tensor([[0.0], [0.0]])}  # fmt: skip
    expected = torch.tensor([[2.5 / 3, 0.5 / 3], [0.5, 0.5]])  # 5/2 and 2/4; the second client is where w is
    torch.testing.assert_close(layer_scores(theta, w, (("a",), ("b", "c"))), expected)


def test_of_equal_layers_the_first_stay_personal():
    scores = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.1, 0.4, 0.4, 0.1]])
    assert most_personal(scores, 2).tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    assert most_personal(scores, 0).sum() == 0


def test_a_normalisation_belongs_to_the_layer_before_it():
    def make() -> SplitModel:
        body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 5), nn.LayerNorm(5))
        return SplitModel(body, nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 3)))

    assert Model(make(), make).layers == (
        ("body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"),
        ("body.3.weight", "body.3.bias", "body.4.weight", "body.4.bias"),
        ("head.0.weight", "head.0.bias"),  # nothing of the head stands before it
        ("head.1.weight", "head.1.bias"),
    )


# --- FedSAM

SETTINGS = [
    {},
    {"momentum": 0.9, "weight_decay": 0.1},
    {"local_epochs": 2, "participation": 0.5},
    {"model": {"name": "mlr", "l2": 0.3}, "batch_size": "full"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_fedsam_with_zero_rho_is_fedavg(settings):
    changed = {"model": NETWORK} | settings
    fedsam = trained({"name": "fedsam", "rho": 0}, **changed)
    assert_close(shared_model(fedsam), shared_model(trained("fedavg", **changed)), 1e-12)
    assert any("fedavg" in note for note in fedsam.task.notes)


def test_fedsam_rounds_as_the_paper_writes_them():
    run = trained({"name": "fedsam", "rho": 0.3}, model=NETWORK)
    w = run.task.initial_model()
    for round in (1, 2):
        copies = []
        for batches in batches_of(run, round):
            own = w
            for x, y in batches:
                g = gradient(own, x, y)
                norm = math.sqrt(sum(float((t**2).sum()) for t in g.values()))
                own = moved(own, gradient({n: t + 0.3 * g[n] / norm for n, t in own.items()}, x, y), 0.1)
            copies.append(own)
        shares = run.task.weights
        w = {n: sum(share * c[n] for share, c in zip(shares, copies, strict=True)) for n in w}
    assert_close(shared_model(run), w, 1e-10)
    assert run.algorithm.personalized(run.state, run.task).params is run.state.global_params


def test_sharpness_aware_steps_cost_two_gradients():
    spent = {
        name: list(simulation(name, model=NETWORK, participation=0.5).rounds())[1].scalars["gradient_evaluations"]
        for name in ("fedavg", "fedsam", "plgu_lf")
    }
    assert spent["fedsam"] == spent["plgu_lf"] == 2 * spent["fedavg"]


@pytest.mark.parametrize(
    ("entry", "steps"),
    [({"name": "fedsam"}, ["", ""]), ({"name": "plgu_lf"}, ["", ""]),
     ({"name": "plgu_grep", "head_steps": 1}, ["head.", "body.", "body."])],
)  # fmt: skip
def test_the_recorded_loss_is_that_of_the_model_that_trains_and_not_of_the_perturbed_one(entry, steps):
    """``steps`` says what each moves: everything, the head or the body."""
    run = simulation(entry | {"rho": 30.0}, model=NETWORK, batch_size="full", local_steps=2, rounds=1)
    told = list(run.rounds())[1].arrays["train_loss"]
    for i in range(4):
        x, y = run.task.data.train.of_client(i)
        own, losses = run.task.initial_model(), []
        for part in steps:
            losses.append(float(loss(own, x, y)))
            slope = gradient(own, x, y)
            if entry["name"] == "fedsam":
                eps = perturbation(slope, [1.0, 1.0], 30.0, 2.0)
                slope = gradient({n: t + eps[n] for n, t in own.items()}, x, y)
            own = moved(own, {n: g for n, g in slope.items() if n.startswith(part)}, 0.1)
        assert told[i] == pytest.approx(sum(losses) / len(losses), rel=1e-10)


# --- PLGU-LF


@pytest.mark.parametrize("settings", SETTINGS)
def test_plgu_lf_with_all_layers_personal_is_local_training(settings):
    changed = {"model": NETWORK} | settings
    num_layers = 2 if changed["model"] == NETWORK else 1
    run = trained({"name": "plgu_lf", "D": num_layers}, **changed)
    assert_close(personalized(run), personalized(trained("local_train", **changed)), 1e-12)
    assert any("alone" in note for note in run.task.notes)


@pytest.mark.parametrize("settings", [*SETTINGS, {"local_steps": 7, "batch_size": 2}])
def test_plgu_lf_without_radius_and_personal_layers_is_fedavg_of_equal_clients(settings):
    changed = {"model": NETWORK, "data": federation(ALIKE)} | settings
    run = trained({"name": "plgu_lf", "D": 0, "rho": 0}, **changed)
    assert_close(shared_model(run), shared_model(trained("fedavg", **changed)), 1e-12)


@pytest.mark.parametrize("name", ["plgu_lf", "plgu_grep"])
def test_a_radius_of_zero_is_said_to_perturb_nothing(name):
    for rho in (0, 0.05):
        notes = simulation({"name": name, "rho": rho}, model=NETWORK).task.notes
        assert any("nothing is perturbed" in note for note in notes) == (rho == 0)


def test_plgu_lf_of_one_step_is_fedsam_with_a_share_of_rho():
    """Scores are equal in every round of a model with one layer, and in the first of any."""
    data = federation(ALIKE)
    for model, rounds, rho in (("mlr", 3, 0.4), (NETWORK, 1, 0.2)):
        fedsam = trained({"name": "fedsam", "rho": rho}, data, model=model, rounds=rounds, local_steps=1)
        plgu = trained({"name": "plgu_lf", "rho": 0.4, "D": 0}, data, model=model, rounds=rounds, local_steps=1)
        assert_close(shared_model(plgu), shared_model(fedsam), 1e-12)


@pytest.mark.parametrize("order", ["algorithm", "listing"])
def test_plgu_lf_rounds_as_the_document_writes_them(order):
    rho, p = 0.5, 3.0
    run = trained({"name": "plgu_lf", "D": 1, "rho": rho, "p": p, "order": order}, model=DEEP, rounds=3)
    w = run.task.initial_model()
    theta = [w] * 4
    for round in (1, 2, 3):
        copies = []
        for i, batches in enumerate(batches_of(run, round)):
            scores = scores_of(theta[i], w)
            kept = layers_of(w)[scores.index(max(scores))]
            own, local = {n: theta[i][n] if n in kept else w[n] for n in w}, w
            for x, y in batches:
                g = gradient(own, x, y)
                eps = perturbation(g, scores, rho, p)
                stepped = moved(own, g, 0.1)
                near = stepped if order == "listing" else own
                local = moved(local, gradient({n: near[n] + eps[n] for n in w}, x, y), 0.1)
                own = stepped
            theta[i] = own
            copies.append(local)
        w = {n: sum(c[n] for c in copies) / 4 for n in w}
    assert_close(shared_model(run), w, 1e-10)
    assert_close(personalized(run), {n: torch.stack([t[n] for t in theta]) for n in w}, 1e-10)


@pytest.mark.parametrize(("model", "asked", "kept"), [("mlr", 5, 0), (NETWORK, 5, 1), (NETWORK, 1, 1), (NETWORK, 2, 2)])
def test_plgu_lf_shares_a_layer_unless_all_are_asked_for(model, asked, kept):
    run = simulation({"name": "plgu_lf", "D": asked}, model=model)
    _, diagnostics = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    assert diagnostics.values["personal_layers"].sum(1).tolist() == [kept] * 4
    assert any(f"so D={kept} is used" in note for note in run.task.notes) == (asked != kept)


def test_plgu_lf_records_scores_of_participants_alone():
    for result in list(simulation("plgu_lf", model=NETWORK, participation=0.5, rounds=3).rounds())[1:]:
        scores, kept = (result.arrays[f"diagnostics.{n}"] for n in ("layer_scores", "personal_layers"))
        outside = [i for i in range(4) if i not in result.cohort]
        assert scores.shape == kept.shape == (4, 2)
        assert scores[result.cohort].sum(1) == pytest.approx([1, 1]) and kept[result.cohort].sum(1).tolist() == [1, 1]
        assert math.isnan(scores[outside].max()) and math.isnan(kept[outside].max())


# --- PLGU-GRep


def test_plgu_grep_without_radius_is_fedrep_with_two_steps():
    changed = {"model": NETWORK, "data": federation(ALIKE), "batch_size": "full", "rounds": 3}
    for more in ({}, {"momentum": 0.5, "weight_decay": 0.1}, {"participation": 0.5}):
        grep = trained({"name": "plgu_grep", "rho": 0, "head_steps": 4}, **changed, **more)
        fedrep = trained({"name": "fedrep", "head_steps": 4}, local_steps=2, **changed, **more)
        assert_close(personalized(grep), personalized(fedrep), 1e-12)


def test_plgu_grep_rounds_as_the_document_writes_them():
    rho, p = 0.5, 1.5
    run = trained({"name": "plgu_grep", "rho": rho, "p": p, "head_steps": 2}, model=DEEP)
    body = [n for n in run.task.model.names if n.startswith("body.")]
    start = run.task.initial_model()
    phi, heads = {n: start[n] for n in body}, [{n: start[n] for n in start if n not in body}] * 4
    for round in (1, 2):
        bodies = []
        for i, (head_batches, batches) in enumerate(
            zip(batches_of(run, round, "head", 2), batches_of(run, round), strict=True)
        ):
            own = phi | heads[i]
            for x, y in head_batches:
                own = moved(own, {n: g for n, g in gradient(own, x, y).items() if n not in body}, 0.1)
            x, y = batches[0]
            first = moved(own, {n: gradient(own, x, y)[n] for n in body}, 0.1)
            scores = scores_of({n: first[n] for n in body}, own)
            eps = perturbation({n: gradient(first, x, y)[n] for n in body}, scores, rho, p)
            beside = gradient(first | {n: first[n] + eps[n] for n in body}, x, y)
            bodies.append({n: first[n] - 0.1 * beside[n] for n in body})
            heads[i] = {n: own[n] for n in heads[i]}
        phi = {n: sum(b[n] for b in bodies) / 4 for n in body}
    expected = {n: phi[n].expand(4, *phi[n].shape) if n in body else torch.stack([h[n] for h in heads]) for n in start}
    assert_close(personalized(run), expected, 1e-10)


def test_plgu_grep_takes_three_gradients_of_one_batch():
    run = simulation({"name": "plgu_grep", "head_steps": 2}, model=NETWORK, local_steps=9)
    _, diagnostics = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    batch = [min(4, size) for size in (6, 9, 4, 7)]
    heads = sum(b + min(b, size - b if size > b else b) for b, size in zip(batch, (6, 9, 4, 7), strict=True))
    assert diagnostics.gradient_evaluations == heads + 3 * sum(batch)
    assert any("local_steps" in note for note in run.task.notes)


def test_plgu_grep_refuses_a_model_without_a_body():
    with pytest.raises(Unsupported, match="plgu_grep needs a body"):
        simulation("plgu_grep", model="mlr")


# --- Newcomers


def test_newcomers_of_fedsam_take_the_global_model():
    run = trained("fedsam")
    adapted = run.algorithm.adapted(run.state, run.task.everyone(stream="newcomers"), run.task)
    assert not adapted.is_per_client
    assert_equal(dict(adapted.params), shared_model(run))


@pytest.mark.parametrize("entry", [{"name": "plgu_lf", "D": 1}, {"name": "plgu_grep"}])
def test_newcomers_take_part_once(entry):
    """Whoever has trained never is where a newcomer with the same data is: their next participation ends alike."""
    run = trained(entry, model=NETWORK, participation=0.5, rounds=1)
    fresh = [i for i in range(4) if i not in run.task.cohort(1).clients.tolist()]
    newcomers = simulation(entry, model=NETWORK).task
    before = {n: p.clone() for n, p in run.state.personal_params.items()}
    adapted = run.algorithm.adapted(run.state, newcomers.everyone(round=2), newcomers)
    assert_equal(run.state.personal_params, before)
    after, _ = run.algorithm.round(run.state, run.task.everyone(round=2), run.task)
    for n, p in after.personal_params.items():
        torch.testing.assert_close(adapted.params[n][fresh], p[fresh])
