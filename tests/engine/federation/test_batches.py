"""Cohorts and batches: equal for all methods, and independent of order, chunks and other clients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.federation.batches import BatchRequest, make_plan, num_local_samples, num_local_steps
from tests.support.builders import SIZES, federation, simulation


def plan_of(sizes: list[int], steps: list[int], batch_size=4, seed=0, clients=None, round=1, stream="batches"):
    ids = torch.tensor(clients if clients is not None else list(range(len(sizes))))
    starts = torch.tensor(np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    return make_plan(BatchRequest(sizes, starts, ids, steps, batch_size, seed, stream, round))


def rows_of(plan, client: int, step: int) -> list[int]:
    return plan.rows[client, step, : plan.counts[step][client]].tolist()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 3))
def test_an_epoch_uses_every_sample_once_including_the_last_short_batch(sizes, batch, epochs):
    steps = [num_local_steps(s, batch, None, epochs) for s in sizes]
    order = sorted(range(len(sizes)), key=lambda i: -steps[i])
    sizes, steps = [sizes[i] for i in order], [steps[i] for i in order]
    plan = plan_of(sizes, steps, batch)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for i, size in enumerate(sizes):
        per_epoch = steps[i] // epochs
        for e in range(epochs):
            used = [r for t in range(e * per_epoch, (e + 1) * per_epoch) for r in rows_of(plan, i, t)]
            assert sorted(used) == list(range(starts[i], starts[i] + size))
        assert [plan.counts[t][i] for t in range(per_epoch)] == [min(batch, size - t * batch) for t in range(per_epoch)]


@given(st.integers(1, 12), st.one_of(st.integers(1, 5), st.just("full")), st.integers(1, 9), st.booleans())
def test_the_samples_of_a_client_are_counted_without_drawing_them(size, batch, count, are_epochs):
    steps, epochs = (None, count) if are_epochs else (count, None)
    plan = plan_of([size], [num_local_steps(size, batch, steps, epochs)], batch)
    assert plan.samples == (num_local_samples(size, batch, steps, epochs),)


def test_batches_of_a_client_do_not_depend_on_the_others():
    together, alone = plan_of([9, 7, 5], [4, 4, 4]), plan_of([7], [4], clients=[1])
    for t in range(4):
        assert [r - 9 for r in rows_of(together, 1, t)] == rows_of(alone, 0, t)


def test_fewer_steps_use_the_same_batches():
    long, short = plan_of([9, 7], [6, 6]), plan_of([9, 7], [2, 2])
    assert all(rows_of(long, i, t) == rows_of(short, i, t) for i in range(2) for t in range(2))


def test_rounds_seeds_and_streams_have_different_batches():
    plans = [plan_of([50], [3], **k) for k in ({}, {"round": 2}, {"seed": 1}, {"stream": "finetune"})]
    assert len({str(p.rows.tolist()) for p in plans}) == 4


def test_full_batches_use_all_samples_in_every_step():
    plan = plan_of([3, 5], [4, 2], "full")
    assert plan.rows.shape[1] == 1 and rows_of(plan, 0, 0) == [0, 1, 2] and rows_of(plan, 1, 0) == [3, 4, 5, 6, 7]
    assert plan.gradient_evaluations == 4 * 3 + 2 * 5


def test_gradient_evaluations_count_samples():
    assert plan_of([9, 7, 2], [3, 3, 3], 4).gradient_evaluations == (4 + 4 + 1) + (4 + 3 + 4) + (2 + 2 + 2)


def test_part_of_a_plan_has_the_same_batches():
    plan = plan_of([12, 9, 5, 2], [3, 3, 2, 1], 4)
    part = plan.part(2, 4)
    assert part.num_steps == 2 and part.steps == (2, 1)
    assert all(rows_of(part, i, t) == rows_of(plan, i + 2, t) for i, t in ((0, 0), (0, 1), (1, 0)))


def test_a_batch_only_has_clients_with_remaining_steps():
    run = simulation("fedavg", local_epochs=1, batch_size=4)
    cohort = run.task.cohort(1)
    assert cohort.clients.tolist() == [1, 0, 3, 2]  # 3, 2, 2 and 1 steps
    sizes = [batch.size for batch in cohort.plan.batches(run.task.data.train)]
    assert sizes == [4, 3, 1]


def test_weights_only_average_real_samples():
    run = simulation("fedavg", batch_size=5, local_steps=1)
    batch = next(iter(run.task.cohort(1).plan.batches(run.task.data.train)))
    assert batch.counts == (5, 5, 4, 5) and batch.weight.sum(1).tolist() == pytest.approx([1, 1, 1, 1])
    assert float(batch.weight[2, 4]) == 0


def test_methods_of_an_experiment_share_initial_model_cohorts_and_batches():
    a, b = simulation("fedavg", participation=0.5), simulation("ditto", participation=0.5)
    assert torch.equal(a.task.initial_model()["head.weight"], b.task.initial_model()["head.weight"])
    for round in (1, 2):
        assert a.task.cohort(round).clients.tolist() == b.task.cohort(round).clients.tolist()
        assert torch.equal(a.task.cohort(round).plan.rows, b.task.cohort(round).plan.rows)


def test_aggregation_weights_are_the_training_sizes():
    cohort = simulation("fedavg").task.cohort(1)
    assert cohort.weights.tolist() == pytest.approx([SIZES[i] / sum(SIZES) for i in cohort.clients.tolist()])


def test_a_repeated_plan_has_the_same_batches_for_each_model_of_a_client():
    plan = plan_of([12, 9, 2], [3, 2, 1], 4)
    twice = plan.repeat(2)
    assert twice.steps == (3, 3, 2, 2, 1, 1) and twice.gradient_evaluations == 2 * plan.gradient_evaluations
    for i, steps in enumerate(twice.steps):
        assert [rows_of(twice, i, t) for t in range(steps)] == [rows_of(plan, i // 2, t) for t in range(steps)]


@pytest.mark.parametrize("batch_size", [4, "full"])
def test_a_batch_has_the_rows_of_its_samples(batch_size):
    run = simulation("fedavg", local_epochs=1, batch_size=batch_size)
    data = run.task.data.train
    for batch in run.task.cohort(1).plan.batches(data):
        assert torch.equal(batch.x, data.features(batch.rows)) and torch.equal(batch.y, data.labels(batch.rows))


@pytest.mark.parametrize("training", [{"batch_size": 3}, {"batch_size": "full"}, {"local_epochs": 4}], ids=str)
def test_a_plan_knows_the_shapes_of_its_batches(training):
    task = simulation("fedavg", **{"local_steps": 5} | training).task
    plan, data = task.cohort(1).plan, task.data.train
    for part in (plan, plan.part(0, 2), plan.part(1, 4)):
        assert list(part.shapes) == [batch.shape for batch in part.batches(data)]
        assert [shape[0] for shape in part.shapes] == [part.live(step) for step in range(part.num_steps)]


def test_a_pass_takes_a_share_of_the_batches_of_one_permutation():
    task = simulation("fedavg").task  # batches of 4 of 6, 9, 4 and 7 samples: 2, 3, 1 and 2 a pass
    whole, part = (task.passes([3, 2, 1, 0], 5, "a pass", share) for share in (1.0, 0.5))
    assert whole.client_ids == (1, 0, 3, 2) and whole.plan.steps == (3, 2, 2, 1)
    assert part.client_ids == (1, 0, 2, 3) and part.plan.steps == (2, 1, 1, 1)
    assert whole.plan.gradient_evaluations == sum(SIZES)
    for s, client in enumerate(part.client_ids):
        place = whole.client_ids.index(client)
        assert all(rows_of(part.plan, s, t) == rows_of(whole.plan, place, t) for t in range(part.plan.steps[s]))


def test_a_tiny_share_of_a_pass_is_one_batch_and_rounding_adds_none():
    task = simulation("fedavg", batch_size=1).task
    assert set(task.passes([0, 1], 1, "a pass", 0.01).plan.steps) == {1}
    assert task.passes([1], 1, "a pass", 1 / 3).plan.steps == (3,)
    assert simulation("fedavg", batch_size="full").task.passes([0, 1], 1, "a pass", 0.3).plan.steps == (1, 1)


def test_a_pass_is_not_augmented():
    data = federation(features=48, shape=(3, 4, 4))
    task = simulation("fedavg", data, augmentation="crop_flip").task
    assert task.cohort(1).plan.augmentation is not None
    assert task.passes([0, 1], 1, "a pass").plan.augmentation is None
