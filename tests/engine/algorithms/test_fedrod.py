"""FedRoD: rounds computed with plain autograd, and which head learns from which loss."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from engine.models import Model, OneColumn, SplitModel
from tests.support import plain
from tests.support.builders import SIZES, assert_close, assert_equal, personalized, shared_model, simulation, trained
from tests.support.settings import DNN
from tests.support.split_models import EXACT, body_and_head, rounds_of, row_of


def rod_loss(counts: torch.Tensor):
    """Both losses in one, detached so that each gradient reaches only its own parameters."""

    def loss(params, x, y):
        features = plain.hidden(params, x)
        generic = features @ params["head.weight"].T + params["head.bias"]
        shares = torch.exp(generic) * counts  # balanced softmax: n_c exp(z_c), which is 0 for an absent class
        balanced = -(shares.gather(1, y[:, None])[:, 0] / shares.sum(1)).log()
        own = features.detach() @ params["personal.head.weight"].T + params["personal.head.bias"]
        return balanced.mean() + F.cross_entropy(generic.detach() + own, y)

    return loss


def test_a_fedrod_round_follows_the_paper():
    run = trained("fedrod", model=DNN, participation=0.75)
    shared, head = run.task.initial_model(), body_and_head(run)[1]
    heads = {i: {f"personal.{n}": p for n, p in head.items()} for i in range(4)}
    counts = run.task.data.class_counts.double()
    assert (counts == 0).any()  # also covers a class that some client lacks
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
        result = run.task.model.logits(row_of(personalized(run), i), x)
        torch.testing.assert_close(result, plain.logits(shared, x) + own, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_the_personal_head_of_fedrod_does_not_affect_the_shared_model(backend):
    run = simulation("fedrod", model=DNN, backend=backend)
    other = dataclasses.replace(
        run.state, personal_params={n: p + 1 + p.square() for n, p in run.state.personal_params.items()}
    )
    (plain_state, a), (other_state, b) = (
        run.algorithm.round(state, run.task.cohort(1), run.task) for state in (run.state, other)
    )
    assert_equal(plain_state.global_params, other_state.global_params)
    assert not torch.equal(a.train_loss, b.train_loss)


def test_fedrod_does_not_train_the_generic_row_of_an_absent_class():
    run = simulation("fedrod", model=DNN)
    lacking = next(i for i, counts in enumerate(run.task.data.class_counts) if (counts == 0).any())
    absent = int((run.task.data.class_counts[lacking] == 0).nonzero()[0])
    after, _ = run.algorithm.round(run.state, run.task.cohort_of([lacking], 1), run.task)
    before = run.task.initial_model()["head.weight"]
    assert torch.equal(after.global_params["head.weight"][absent], before[absent])
    assert not torch.equal(after.global_params["head.weight"], before)


def test_fedrod_records_the_loss_of_both_heads_together():
    run = simulation("fedrod", model=DNN, batch_size="full", local_steps=1)
    cohort = run.task.cohort(1)
    _, result = run.algorithm.round(run.state, cohort, run.task)
    for s, client in enumerate(cohort.clients.tolist()):
        x, y = run.task.data.train.of_client(client)
        twice = 2 * plain.logits(run.task.initial_model(), x)  # the personal head starts as a copy of the generic one
        torch.testing.assert_close(result.train_loss[s], F.cross_entropy(twice, y))


def test_fedrod_refuses_heads_that_are_not_one_linear_layer():
    task = simulation("fedrod", model=DNN).task
    make = lambda: SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(5, 6)), nn.Sequential(nn.ReLU(), OneColumn(6)))  # noqa: E731
    entry = ALGORITHMS.get("fedrod")
    with pytest.raises(Unsupported, match="one linear layer"):
        entry.make(entry.options()).init(dataclasses.replace(task, model=Model(make(), make)))
