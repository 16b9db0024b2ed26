"""The public samples of a round and their batches."""

import pytest
import torch

from engine.training.public import AlignmentSet, logits_on
from tests.support.builders import PUBLIC, simulation


def orders(size: int = 6, rounds: tuple[int, ...] = (1, 2, 3), **changed: int) -> list[list[int]]:
    task = simulation("fedmd", **changed).task
    return [AlignmentSet.of(task, round, size).order.tolist() for round in rounds]


def test_rounds_and_seeds_take_other_samples():
    found = [*orders(), *orders(rounds=(1,), seed=1)]
    assert len({tuple(order) for order in found}) == 4
    assert all(len(set(order)) == 6 and max(order) < PUBLIC for order in found)


def test_fewer_samples_are_the_first_of_the_same_permutation():
    assert [order[:3] for order in orders()] == orders(size=3)
    assert sorted(orders(size=1000)[0]) == list(range(PUBLIC))


@pytest.mark.parametrize(
    ("steps", "batch_size", "places"),
    [
        (5, 3, [[0, 1, 2], [3, 4], [0, 1, 2], [3, 4], [0, 1, 2]]),
        (None, 3, [[0, 1, 2], [3, 4]]),
        (2, "full", [[0, 1, 2, 3, 4]] * 2),
        (2, 50, [[0, 1, 2, 3, 4]] * 2),
    ],
)
def test_all_clients_have_the_same_batches_which_begin_again(steps, batch_size, places):
    task = simulation("fedmd").task
    alignment = AlignmentSet.of(task, 1, 5)
    plan = alignment.plan(3, steps, batch_size)
    batches = list(plan.batches(task.data.train))
    assert [batch.y.tolist() for batch in batches] == [[rows] * 3 for rows in places]
    assert plan.gradient_evaluations == 3 * sum(map(len, places))
    assert [b.y.tolist() for b in plan.part(1, 3).batches(task.data.train)] == [[rows] * 2 for rows in places]
    for batch in batches:
        expected = task.data.public.features(alignment.order[batch.y[0]])
        assert torch.equal(batch.x, expected.expand(3, *expected.shape)) and batch.x.stride(0) == 0
        assert batch.weight is None


@pytest.mark.parametrize("scored", [2, 256])
def test_logits_are_those_of_each_model_whatever_the_batches(scored, monkeypatch):
    monkeypatch.setattr("engine.training.public.SCORED", scored)
    run = simulation("fedmd")
    models = {n: p + torch.arange(4.0).view(-1, *[1] * (p.dim() - 1)) for n, p in run.state.personal_params.items()}
    alignment = AlignmentSet.of(run.task, 1, 5)
    x = run.task.data.public.features(alignment.order)
    for i, found in enumerate(logits_on(run.task, models, alignment)):
        expected = x @ models["head.weight"][i].T + models["head.bias"][i]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
