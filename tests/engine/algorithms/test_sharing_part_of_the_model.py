"""Methods that share one part of the model: what is sent, what stays on the client, and the models of newcomers."""

import pytest
import torch

from engine.core.errors import Unsupported
from engine.task import Predictor
from engine.training.evaluate import evaluate
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, assert_equal, federation, personalized, simulation, trained
from tests.support.settings import DNN
from tests.support.split_models import EXACT, rounds_of

METHODS = ("fedper", "fedrep", "fedbabu", "lg_fedavg", "fedrod", "gpfl")


@pytest.mark.parametrize("name", ["fedrep", "fedbabu", "fedrod", "gpfl"])
def test_methods_that_need_a_body_refuse_a_model_without_one(name):
    with pytest.raises(Unsupported, match="use model: dnn"):
        simulation(name, model="mlr")


@pytest.mark.parametrize("name", [n for n in METHODS if n != "fedbabu"])
def test_the_personal_part_changes_only_when_its_client_participates(name):
    run = simulation(name, model=DNN, participation=0.5)
    cohort = run.task.cohort(1)
    after, _ = run.algorithm.round(run.state, cohort, run.task)
    for n, before in run.state.personal_params.items():
        changed = (after.personal_params[n] != before).flatten(1).any(1)
        assert changed.nonzero()[:, 0].tolist() == sorted(cohort.clients.tolist()), n


@pytest.mark.parametrize(
    ("name", "traveling"),
    [("fedper", "body"), ("fedrep", "body"), ("fedbabu", "body"), ("lg_fedavg", "head"), ("fedrod", "names")],
)
def test_only_the_shared_part_is_sent(name, traveling):
    run = simulation(name, model=DNN)
    shared = run.algorithm.shared(run.state)
    expected = sum(8 * run.task.initial_model()[n].numel() for n in getattr(run.task.model, traveling))
    assert shared.bytes_up == shared.bytes_down == expected


@pytest.mark.parametrize("name", METHODS)
def test_newcomers_are_adapted_independently_and_returned_in_order(name):
    """Newcomers of unequal sizes, so that the cohort's order differs from that of the clients."""
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
def test_personalized_models_improve_on_the_initial_model(name):
    """Each client has its own rule, so that one model for all would not."""
    run = trained(name, federation((20, 24)), model=DNN, rounds=6, local_steps=6, lr=0.5)
    start = Predictor(run.task.initial_model(), is_per_client=False)
    _, before = evaluate(run.task, start, run.task.data.train)
    _, after = evaluate(run.task, run.algorithm.personalized(run.state, run.task), run.task.data.train)
    assert (after < 0.75 * before).all()


@pytest.mark.parametrize(
    ("name", "shared", "personal_part"), [("fedper", "body.", "head."), ("lg_fedavg", "head.", "body.")]
)
def test_the_shared_part_is_averaged_and_the_other_is_not(name, shared, personal_part):
    run = trained(name, model=DNN, participation=0.75)
    models = {i: run.task.initial_model() for i in range(4)}
    for batches in rounds_of(run, {}):
        after = {i: plain.descend(models[i], common) for i, (common,) in batches.items()}
        models |= after
        common_part = plain.average(after, SIZES, shared)
        models = {i: model | common_part for i, model in models.items()}
    assert_close(personalized(run), plain.stack([models[i] for i in range(4)]), EXACT)
    assert run.algorithm.global_model(run.state, run.task) is None


@pytest.mark.parametrize(
    ("name", "shared_part", "personal_part"), [("fedper", "body.", "head."), ("lg_fedavg", "head.", "body.")]
)
def test_a_newcomer_trains_its_part_with_a_copy_of_the_shared_one(name, shared_part, personal_part):
    run = trained(name, model=DNN)
    task = simulation(name, federation((5, 8), seed=7), model=DNN).task
    newcomers = task.everyone(stream="newcomers")
    shared, start = run.algorithm.shared(run.state).down[0], task.initial_model()
    batches = samples_of(task, newcomers.clients, newcomers.plan)
    models = [plain.descend(start | shared, batches[i]) | shared for i in range(2)]
    assert_close(dict(run.algorithm.adapted(run.state, newcomers, task).params), plain.stack(models), EXACT)
