"""FedRep: rounds computed with plain autograd, and what is recorded."""

import torch

from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, federation, personalized, simulation, trained
from tests.support.settings import DNN
from tests.support.split_models import EXACT, body_and_head, rounds_of


def test_fedrep_trains_first_the_head_and_then_the_body():
    run = trained({"name": "fedrep", "head_steps": 4}, model=DNN, participation=0.75)
    body, head = body_and_head(run)
    heads = dict.fromkeys(range(4), head)
    for batches in rounds_of(run, {"head": 4}):
        fitted = {i: plain.descend(body | heads[i], extra, trained=["head."]) for i, (_, extra) in batches.items()}
        heads |= {i: {n: model[n] for n in head} for i, model in fitted.items()}
        moved = {i: plain.descend(fitted[i], common, trained=["body."]) for i, (common, _) in batches.items()}
        body = plain.average(moved, SIZES, "body.")
    assert_close(personalized(run), plain.stack([body | heads[i] for i in range(4)]), EXACT)


def test_fedrep_records_the_mean_loss_and_the_gradients_of_both_parts():
    run = simulation({"name": "fedrep", "head_steps": 2}, model=DNN, batch_size="full", local_steps=1)
    cohort = run.task.cohort(1)
    _, diagnostics = run.algorithm.round(run.state, cohort, run.task)
    assert diagnostics.gradient_evaluations == 3 * sum(SIZES)
    for s, client in enumerate(cohort.clients.tolist()):
        x, y = run.task.data.train.of_client(client)
        once = plain.descend(run.task.initial_model(), [(x, y)], trained=["head."])
        twice = plain.descend(once, [(x, y)], trained=["head."])
        losses = [plain.cross_entropy(model, x, y) for model in (run.task.initial_model(), once, twice)]
        torch.testing.assert_close(diagnostics.train_loss[s], torch.stack(losses).mean())


def test_a_newcomer_of_fedrep_fits_a_head_to_the_shared_body():
    run = trained({"name": "fedrep", "head_steps": 4}, model=DNN)
    task = simulation("fedrep", federation((5, 8), seed=7), model=DNN).task
    newcomers = task.everyone(stream="newcomers")
    batches = samples_of(task, newcomers.clients, task.plan(newcomers, "head", 4))
    start = run.state.shared_params | body_and_head(run)[1]
    models = [plain.descend(start, batches[i], trained=["head."]) for i in range(2)]
    assert_close(dict(run.algorithm.adapted(run.state, newcomers, task).params), plain.stack(models), EXACT)
