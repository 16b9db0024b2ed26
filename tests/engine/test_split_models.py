"""Methods that keep one part of the model with its client: what travels, what stays, and what each part learns from."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.backends import add_silently, choose_backend
from engine.backends.batched import Batched
from engine.errors import Unsupported
from engine.evaluate import evaluate
from engine.models import Model, OneColumn, SplitModel
from engine.registry import ALGORITHMS
from engine.task import Predictor
from tests.engine.backends.test_every_backend import batch_of, model_of, stacked
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
)

CPU = torch.device("cpu")
DNN = {"name": "dnn", "hidden": 6}
METHODS = ("fedper", "fedrep", "fedbabu", "lg_fedavg", "fedrod", "gpfl")
EXACT = 1e-10


def rounds_of(run, streams: dict[str, int]):
    """For each of two rounds: {client: (batches of the round, batches of each extra stream...)}."""
    for round in (1, 2):
        cohort = run.task.cohort(round)
        plans = [cohort.plan, *(run.task.plan(cohort, name, steps) for name, steps in streams.items())]
        read = [samples_of(run.task, cohort.clients, plan) for plan in plans]
        yield {i: tuple(batches[i] for batches in read) for i in cohort.clients.tolist()}


def start_of(run) -> tuple[plain.Params, plain.Params]:
    """(body, head) of the common initial model."""
    model = run.task.initial_model()
    return tuple({n: p for n, p in model.items() if n.startswith(prefix)} for prefix in ("body.", "head."))


# --- What the methods stand on


def test_class_counts_are_of_training_samples_alone():
    data = federation()
    for i, counts in enumerate(data.class_counts):
        assert counts.tolist() == torch.bincount(data.train.of_client(i)[1], minlength=3).tolist()


def test_a_silent_term_moves_the_gradient_and_not_the_value():
    w = torch.tensor(3.0, requires_grad=True)
    loss = add_silently(w.square(), 10 * w)
    loss.backward()
    assert loss.item() == 9.0 and w.grad.item() == 16.0


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_backends_train_parameters_that_a_method_adds_to_the_models_own(backend):
    model = model_of("mlr", l2=0.5)
    params = {**stacked(model, 2), "scale": torch.tensor([2.0, 3.0], dtype=torch.float64)}
    out = {"scale": torch.ones(2, dtype=torch.float64)}
    objective = lambda model, own, x, y, weight, extras: own["scale"].square()  # noqa: E731
    losses = choose_backend(backend, model, CPU).accumulate(out, params, batch_of((3, 2)), -0.5, 0.5, objective)
    assert losses.tolist() == [4.0, 9.0] and out["scale"].tolist() == [0.5 - 2.0, 0.5 - 3.0]


# --- All of them


@pytest.mark.parametrize("name", ["fedrep", "fedbabu", "fedrod", "gpfl"])
def test_methods_that_need_a_body_refuse_a_model_without_one(name):
    with pytest.raises(Unsupported, match="use model: dnn"):
        simulation(name, model="mlr")


@pytest.mark.parametrize("name", [n for n in METHODS if n != "fedbabu"])
def test_the_own_part_changes_when_its_client_participates_and_only_then(name):
    run = simulation(name, model=DNN, participation=0.5)
    cohort = run.task.cohort(1)
    after, _ = run.algorithm.round(run.state, cohort, run.task)
    for n, before in run.state.personal_params.items():
        changed = (after.personal_params[n] != before).flatten(1).any(1)
        assert changed.nonzero()[:, 0].tolist() == sorted(cohort.clients.tolist()), n


@pytest.mark.parametrize(
    ("name", "travelling"),
    [("fedper", "body"), ("fedrep", "body"), ("fedbabu", "body"), ("lg_fedavg", "head"), ("fedrod", "names")],
)
def test_only_the_shared_part_travels(name, travelling):
    run = simulation(name, model=DNN)
    shared = run.algorithm.shared(run.state)
    expected = sum(8 * run.task.initial_model()[n].numel() for n in getattr(run.task.model, travelling))
    assert shared.bytes_up == shared.bytes_down == expected


@pytest.mark.parametrize("name", METHODS)
def test_newcomers_are_adapted_one_by_one_and_returned_in_order(name):
    """Of unequal sizes, so that the cohort's order is not the clients'."""
    epochs = {"model": DNN, "local_epochs": 1, "batch_size": 2}
    run = trained(name, **epochs)
    both, first = (simulation(name, federation(sizes, seed=7), **epochs).task for sizes in ((3, 8), (3,)))
    assert both.everyone(stream="newcomers").clients.tolist() == [1, 0]
    before = {n: p.clone() for n, p in run.algorithm.shared(run.state).down[0].items()}
    together, alone = (
        run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task) for task in (both, first)
    )
    assert_equal(before, dict(run.algorithm.shared(run.state).down[0]))
    for n, p in together.params.items():
        assert len(p) == 2
        torch.testing.assert_close(p[:1], alone.params[n])
    for n in run.task.model.head if name != "lg_fedavg" else run.task.model.body:
        assert not torch.equal(together.params[n][0], together.params[n][1])


@pytest.mark.parametrize("name", METHODS)
def test_personalized_models_fit_their_clients_better_than_the_start(name):
    """Every client has a rule of its own, so that one model for all would not."""
    run = trained(name, federation((20, 24)), model=DNN, rounds=6, local_steps=6, lr=0.5)
    start = Predictor(run.task.initial_model(), is_per_client=False)
    _, before = evaluate(run.task, start, run.task.data.train)
    _, after = evaluate(run.task, run.algorithm.personalized(run.state, run.task), run.task.data.train)
    assert (after < 0.75 * before).all()


# --- FedPer and LG-FedAvg


@pytest.mark.parametrize(("name", "shared", "own"), [("fedper", "body.", "head."), ("lg_fedavg", "head.", "body.")])
def test_one_part_is_averaged_and_the_other_stays(name, shared, own):
    run = trained(name, model=DNN, participation=0.75)
    models = {i: run.task.initial_model() for i in range(4)}
    for batches in rounds_of(run, {}):
        after = {i: plain.descend(models[i], common) for i, (common,) in batches.items()}
        models |= after
        common_part = plain.average(after, SIZES, shared)
        models = {i: model | common_part for i, model in models.items()}
    assert_close(personalized(run), plain.stack([models[i] for i in range(4)]), EXACT)
    assert run.algorithm.global_model(run.state, run.task) is None


def test_fedper_with_an_empty_body_is_local_training_and_says_so():
    run = trained("fedper")
    assert_equal(personalized(run), personalized(trained("local_train")))
    assert run.algorithm.shared(run.state).bytes_up == 0
    assert any("local training" in note for note in run.task.notes)


def test_fedper_with_an_empty_head_is_fedavg_and_says_so():
    states = {}
    for name in ("fedper", "fedavg"):
        task = simulation(name).task
        make = lambda: SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), nn.Identity())  # noqa: E731
        model = Model(make(), make)
        task = dataclasses.replace(task, model=model, backend=Batched(model))
        entry = ALGORITHMS.get(name)
        method = entry.make(entry.options())
        states[name] = method.init(task)
        for round in (1, 2):
            states[name], _ = method.round(states[name], task.cohort(round), task)
        assert any("is fedavg" in note for note in task.notes) == (name == "fedper")
    assert_equal(states["fedper"].shared_params, states["fedavg"].global_params)


def test_lg_fedavg_with_an_empty_body_is_fedavg_and_says_so():
    run = trained("lg_fedavg")
    assert_equal(row_of(personalized(run), 2), shared_model(trained("fedavg")))
    assert any("is fedavg" in note for note in run.task.notes)


@pytest.mark.parametrize(("name", "kept", "own"), [("fedper", "body.", "head."), ("lg_fedavg", "head.", "body.")])
def test_a_newcomer_trains_its_own_part_beside_a_copy_of_the_shared_one(name, kept, own):
    run = trained(name, model=DNN)
    task = simulation(name, federation((5, 8), seed=7), model=DNN).task
    newcomers = task.everyone(stream="newcomers")
    shared, start = run.algorithm.shared(run.state).down[0], task.initial_model()
    batches = samples_of(task, newcomers.clients, newcomers.plan)
    models = [plain.descend(start | shared, batches[i]) | shared for i in range(2)]
    assert_close(dict(run.algorithm.adapted(run.state, newcomers, task).params), plain.stack(models), EXACT)


def row_of(params: plain.Params, client: int) -> plain.Params:
    return {n: p[client] for n, p in params.items()}


# --- FedRep


def test_fedrep_trains_the_head_first_and_then_the_body_under_it():
    run = trained({"name": "fedrep", "head_steps": 4}, model=DNN, participation=0.75)
    body, head = start_of(run)
    heads = dict.fromkeys(range(4), head)
    for batches in rounds_of(run, {"head": 4}):
        fitted = {i: plain.descend(body | heads[i], extra, trained=["head."]) for i, (_, extra) in batches.items()}
        heads |= {i: {n: model[n] for n in head} for i, model in fitted.items()}
        moved = {i: plain.descend(fitted[i], common, trained=["body."]) for i, (common, _) in batches.items()}
        body = plain.average(moved, SIZES, "body.")
    assert_close(personalized(run), plain.stack([body | heads[i] for i in range(4)]), EXACT)


def test_fedrep_tells_the_mean_loss_and_the_gradients_of_both_parts():
    run = simulation({"name": "fedrep", "head_steps": 2}, model=DNN, batch_size="full", local_steps=1)
    cohort = run.task.cohort(1)
    _, told = run.algorithm.round(run.state, cohort, run.task)
    assert told.gradient_evaluations == 3 * sum(SIZES)
    for s, client in enumerate(cohort.clients.tolist()):
        x, y = run.task.data.train.of_client(client)
        once = plain.descend(run.task.initial_model(), [(x, y)], trained=["head."])
        twice = plain.descend(once, [(x, y)], trained=["head."])
        losses = [plain.cross_entropy(model, x, y) for model in (run.task.initial_model(), once, twice)]
        torch.testing.assert_close(told.train_loss[s], torch.stack(losses).mean())


def test_a_newcomer_of_fedrep_fits_a_head_to_the_body_that_is_there():
    run = trained({"name": "fedrep", "head_steps": 4}, model=DNN)
    task = simulation("fedrep", federation((5, 8), seed=7), model=DNN).task
    newcomers = task.everyone(stream="newcomers")
    batches = samples_of(task, newcomers.clients, task.plan(newcomers, "head", 4))
    start = run.state.shared_params | start_of(run)[1]
    models = [plain.descend(start, batches[i], trained=["head."]) for i in range(2)]
    assert_close(dict(run.algorithm.adapted(run.state, newcomers, task).params), plain.stack(models), EXACT)


# --- FedBABU


def test_fedbabu_trains_the_body_alone_and_fine_tunes_everything_for_use():
    run = trained({"name": "fedbabu", "finetune_steps": 4}, model=DNN, participation=0.75)
    body, head = start_of(run)
    for batches in rounds_of(run, {}):
        moved = {i: plain.descend(body | head, common, trained=["body."]) for i, (common,) in batches.items()}
        body = plain.average(moved, SIZES, "body.")
    assert_close(shared_model(run), body | head, EXACT)
    everyone = run.task.everyone(stream="finetune", steps=4)
    tuning = samples_of(run.task, everyone.clients, everyone.plan)
    assert_close(personalized(run), plain.stack([plain.descend(body | head, tuning[i]) for i in range(4)]), EXACT)


def test_the_head_of_fedbabu_never_moves_whatever_the_settings():
    run = trained("fedbabu", model=DNN, momentum=0.9, weight_decay=0.1)
    head = start_of(run)[1]
    assert_equal({n: p for n, p in shared_model(run).items() if n in head}, head)


def test_fedbabu_without_fine_tuning_uses_the_global_model():
    run = trained({"name": "fedbabu", "finetune_steps": 0}, model=DNN)
    assert_equal(row_of(personalized(run), 3), shared_model(run))


def test_fedbabu_shows_the_untrained_model_before_the_first_round():
    run = simulation("fedbabu", model=DNN)
    assert_equal(row_of(personalized(run), 1), run.task.initial_model())


def test_fedbabu_refuses_a_start_at_zero():
    with pytest.raises(Unsupported, match="init: default"):
        simulation("fedbabu", model=DNN | {"init": "zeros"})


# --- FedRoD


def rod_loss(counts: torch.Tensor):
    """Both losses in one, with the gradient of each held off from what it must not reach."""

    def loss(params, x, y):
        features = plain.hidden(params, x)
        generic = features @ params["head.weight"].T + params["head.bias"]
        shares = torch.exp(generic) * counts  # balanced softmax: n_c exp(z_c), so an absent class has none
        balanced = -(shares.gather(1, y[:, None])[:, 0] / shares.sum(1)).log()
        own = features.detach() @ params["personal.head.weight"].T + params["personal.head.bias"]
        return balanced.mean() + F.cross_entropy(generic.detach() + own, y)

    return loss


def test_fedrod_round_as_the_paper_writes_it():
    run = trained("fedrod", model=DNN, participation=0.75)
    shared, head = run.task.initial_model(), start_of(run)[1]
    heads = {i: {f"personal.{n}": p for n, p in head.items()} for i in range(4)}
    counts = run.task.data.class_counts.double()
    assert (counts == 0).any()  # a class that is absent somewhere is part of what is checked
    for batches in rounds_of(run, {}):
        after = {
            i: plain.descend(shared | heads[i], common, loss=rod_loss(counts[i])) for i, (common,) in batches.items()
        }
        heads |= {i: {n: p for n, p in model.items() if n.startswith("personal.")} for i, model in after.items()}
        shared = plain.average(after, SIZES, ("body.", "head."))
    assert_close(shared_model(run), shared, EXACT)
    for i in range(4):
        x, _ = run.task.data.test.of_client(i)
        features = plain.hidden(shared, x)
        own = features @ heads[i]["personal.head.weight"].T + heads[i]["personal.head.bias"]
        told = run.task.model.logits(row_of(personalized(run), i), x)
        torch.testing.assert_close(told, plain.logits(shared, x) + own, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_the_personal_head_of_fedrod_has_no_say_in_what_is_shared(backend):
    run = simulation("fedrod", model=DNN, backend=backend)
    other = dataclasses.replace(
        run.state, personal_params={n: p + 1 + p.square() for n, p in run.state.personal_params.items()}
    )
    (plain_state, a), (other_state, b) = (
        run.algorithm.round(state, run.task.cohort(1), run.task) for state in (run.state, other)
    )
    assert_equal(plain_state.global_params, other_state.global_params)
    assert not torch.equal(a.train_loss, b.train_loss)


def test_fedrod_leaves_the_generic_row_of_an_absent_class_alone():
    run = simulation("fedrod", model=DNN)
    lacking = next(i for i, counts in enumerate(run.task.data.class_counts) if (counts == 0).any())
    absent = int((run.task.data.class_counts[lacking] == 0).nonzero()[0])
    after, _ = run.algorithm.round(run.state, run.task.cohort_of([lacking], 1), run.task)
    before = run.task.initial_model()["head.weight"]
    assert torch.equal(after.global_params["head.weight"][absent], before[absent])
    assert not torch.equal(after.global_params["head.weight"], before)


def test_fedrod_tells_the_loss_of_both_heads_together():
    run = simulation("fedrod", model=DNN, batch_size="full", local_steps=1)
    cohort = run.task.cohort(1)
    _, told = run.algorithm.round(run.state, cohort, run.task)
    for s, client in enumerate(cohort.clients.tolist()):
        x, y = run.task.data.train.of_client(client)
        twice = 2 * plain.logits(run.task.initial_model(), x)  # the personal head starts as the generic one
        torch.testing.assert_close(told.train_loss[s], F.cross_entropy(twice, y))


def test_fedrod_refuses_heads_that_do_not_add_up_to_one():
    task = simulation("fedrod", model=DNN).task
    make = lambda: SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(5, 6)), nn.Sequential(nn.ReLU(), OneColumn(6)))  # noqa: E731
    entry = ALGORITHMS.get("fedrod")
    with pytest.raises(Unsupported, match="one linear layer"):
        entry.make(entry.options()).init(dataclasses.replace(task, model=Model(make(), make)))
