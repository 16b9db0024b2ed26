"""FedFomo: weights by first-order gains, held-out samples, and rounds computed one client at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.algorithms.fedfomo import Asked, choose, gains_of, moved, split
from engine.config.schema import RunConfig
from engine.core.params import gather
from engine.core.streams import numpy_stream
from engine.simulation.simulate import Simulation
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    config,
    federation,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.lost_uploads import Lossy
from tests.support.newcomers import unseen_models
from tests.support.reference import as_matrix, loss, start_of, steps_of
from tests.support.split_models import row_of

N = len(SIZES)


def fedfomo(**options: object) -> dict:
    return {"name": "fedfomo"} | options


@pytest.mark.parametrize("training", [{}, {"participation": 0.5}, {"momentum": 0.5}], ids=str)
def test_a_client_that_asks_for_nothing_and_always_improves_trains_alone(training: dict):
    settings = {"rounds": 4, "batch_size": "full"} | training
    run = trained(fedfomo(models=0, val_share=0), **settings)
    assert_close(personalized(run), personalized(trained("local_train", **settings)))
    assert any("clients ask for no models" in note for note in run.task.notes)


def nobody(size: int) -> Asked:
    return Asked(torch.zeros(size, 0, dtype=torch.int64), torch.zeros(size, 0, dtype=torch.bool))


def test_the_weights_of_a_known_example():
    own, uploads = {"w": torch.tensor([0.5, 0.5])}, {"w": torch.tensor([2.0, -1.0, 1.0])}
    base, w = {"w": torch.tensor([0.0, 0.0])}, torch.tensor([0.5, 2.0, -1.0, 1.0])
    c = (0.5 - (w - 1) ** 2 / 2) / w.abs()
    asked = Asked(torch.arange(3).expand(2, 3), torch.ones(2, 3, dtype=torch.bool))
    start = moved(base, own, uploads, asked, torch.stack([c, -c.abs()]))["w"]
    torch.testing.assert_close(start, torch.tensor([0.6 * 0.5 + 0.4 * 1.0, 0.0]))


def test_a_candidate_that_equals_the_base_has_no_gain():
    run = trained("fedfomo", rounds=1)
    task, cohort, uploads = run.task, run.task.cohort(2), run.state.uploads
    theta, base = (gather(p, cohort.clients) for p in (run.state.personal_params, run.state.base_params))
    assert gains_of(task, theta, theta, uploads, nobody(N), cohort).tolist() == [[0.0]] * N
    assert (gains_of(task, base, theta, uploads, nobody(N), cohort) > 0).all()
    own = Asked(cohort.clients[:, None], torch.ones(N, 1, dtype=torch.bool))
    both = gains_of(task, base, theta, uploads, own, cohort)
    assert torch.equal(both[:, 0], both[:, 1])
    unused = gains_of(task, base, theta, uploads, replace(own, is_used=~own.is_used), cohort)
    assert torch.equal(unused[:, 0], both[:, 0]) and not unused[:, 1].any()


def test_the_clock_counts_the_models_that_clients_ask_for():
    size = 3 * 5 + 3
    raw = config(fedfomo(models=2), rounds=3).to_dict()
    system = {"down_mbit": 8e-6, "link_spread": 0}  # a byte a second
    rounds = [*Simulation(RunConfig.from_dict(raw | {"system": system}), data=federation()).rounds()]
    assert [r.scalars["bytes_down"] for r in rounds] == [0, 0, N * 2 * size * 8, N * 2 * size * 8]
    assert [r.scalars["diagnostics.simulated_s"] for r in rounds] == pytest.approx([0, 0, 2 * size * 8, 4 * size * 8])


def samples(task, client: int) -> set[tuple[float, ...]]:
    return {tuple(x.tolist()) for x in task.data.train.of_client(client)[0]}


@pytest.mark.parametrize(
    ("val_share", "held"), [(0.2, (1, 2, 1, 1, 0)), (0.6, (4, 5, 2, 4, 0)), (0.99, (5, 8, 3, 6, 0))]
)
def test_held_out_samples_are_the_rounded_share_and_never_all(val_share: float, held: tuple[int, ...]):
    task = simulation("fedfomo", federation((*SIZES, 1))).task
    kept, measured = split(task, torch.tensor([3, 4, 0, 1, 2]), val_share)
    assert measured.train_sizes == (*held[:4], 1)
    assert kept.train_sizes == tuple(m - v for m, v in zip((*SIZES, 1), held, strict=True))
    for i in range(N):
        assert samples(kept, i) | samples(measured, i) == samples(task, i)
        assert not samples(kept, i) & samples(measured, i)


def test_samples_are_held_out_for_the_whole_run_and_whoever_takes_part():
    task = simulation("fedfomo").task
    of_all, of_two = (split(task, torch.tensor(clients), 0.4) for clients in ([0, 1, 2, 3], [3, 1]))
    for some, one in zip(of_all, of_two, strict=True):
        assert all(samples(some, i) == samples(one, i) for i in (1, 3))
        assert one.train_sizes[0] == one.train_sizes[2] == 0


def test_poisoned_labels_stay_with_their_samples():
    task = simulation("fedfomo").task
    train = task.data.train
    labels = torch.arange(train.num_samples)  # each sample has its own
    task = replace(task, data=replace(task.data, train=replace(train, relabeled=labels)))
    for some in split(task, torch.tensor([3, 1]), 0.4):
        for i in (1, 3):
            x, y = some.data.train.of_client(i)
            assert torch.equal(x, train.features(y))


def test_without_held_out_samples_models_are_measured_on_all():
    task = simulation("fedfomo").task
    kept, measured = split(task, torch.arange(N), 0.0)
    assert kept.train_sizes == measured.train_sizes == SIZES


@pytest.mark.parametrize(("count", "expected"), [(0, []), (2, [3, 0]), (9, [3, 0, 1, 2])])
def test_the_largest_affinities_are_asked_first(count: int, expected: list[int]):
    affinity = np.array([0.5, 0.1, -1.0, 2.0])
    assert choose(numpy_stream(0, "any"), affinity, count, 0.0) == expected


def test_equal_affinities_and_strangers_are_drawn_at_random():
    nearly = np.array([1.0, 1.0 + 1e-12, 0.5])
    assert {choose(numpy_stream(s, "any"), nearly, 1, 0.0)[0] for s in range(30)} == {0, 1}
    assert {choose(numpy_stream(s, "any"), nearly, 1, 1.0)[0] for s in range(30)} == {0, 1, 2}
    shares = np.mean([choose(numpy_stream(s, "any"), nearly, 1, 0.6)[0] == 2 for s in range(600)])
    assert shares == pytest.approx(0.2, abs=0.05)


class Reference:
    """The method with numpy, one client after another; every other client's model is a candidate."""

    def __init__(self, run, val_share: float, lr: float = 0.1) -> None:
        self.run, self.val_share, self.lr = run, val_share, lr
        start = start_of(run)
        self.theta, self.base = [start] * N, [start] * N
        self.affinity, self.uploaded = np.zeros((N, N)), set()

    def round(self, round: int) -> None:
        task = self.run.task
        cohort = task.cohort(round)
        kept, measured = split(task, cohort.clients, self.val_share)
        batches = steps_of(kept, kept.cohort_of(list(cohort.client_ids), round))
        theta, base = list(self.theta), list(self.base)
        for i in cohort.client_ids:
            start = base[i]
            if i in self.uploaded:
                x, y = (part.numpy() for part in measured.data.train.of_client(i))
                others = sorted(self.uploaded)
                c = {}
                for n in others:
                    distance = np.linalg.norm(self.theta[n] - base[i])
                    c[n] = (loss(base[i], x, y) - loss(self.theta[n], x, y)) / distance
                total, good = abs(sum(c.values())), sum(max(v, 0) for v in c.values())
                for n, value in c.items():
                    self.affinity[i, n] += value / total
                    if value > 0:
                        start = start + value / good * (self.theta[n] - base[i])
            base[i], theta[i] = start, reference.sgd(start, batches[i], self.lr)
        self.theta, self.base = theta, base
        self.uploaded |= set(cohort.client_ids)


@pytest.mark.parametrize(
    ("val_share", "training"),
    [
        (0.4, {"participation": 0.5}),
        (0.4, {"local_epochs": 2, "batch_size": 2, "participation": 0.75}),
        (0.0, {"batch_size": 2, "lr": 1.5}),
    ],
    ids=str,
)
def test_fedfomo_rounds_follow_the_paper(val_share: float, training: dict):
    run = simulation(fedfomo(val_share=val_share), rounds=5, **training)
    expected = Reference(run, val_share, training.get("lr", 0.1))
    for result in run.rounds():
        if result.round:
            asked = [i for i in result.cohort.tolist() if i in expected.uploaded]
            size = 8 * expected.theta[0].size
            assert result.scalars["bytes_down"] == size * len(asked) * max(0, len(expected.uploaded) - 1)
            assert result.scalars["bytes_up"] == size * len(result.cohort)
            expected.round(result.round)
        np.testing.assert_allclose(as_matrix(personalized(run)), expected.theta, atol=1e-9)
        np.testing.assert_allclose(as_matrix(run.state.base_params), expected.base, atol=1e-9)
        np.testing.assert_allclose(run.state.affinity, expected.affinity, atol=1e-7)
    assert (expected.affinity < 0).any() and (expected.affinity > 0).any()


def test_a_client_asks_the_one_that_helped_most():
    run = simulation(fedfomo(models=1, epsilon=0), rounds=8)
    before = run.state.affinity
    for result in run.rounds():
        after = run.state.affinity
        changed = (after != before) & ~torch.eye(N, dtype=torch.bool)
        assert changed.sum(1).tolist() == [int(result.round > 1)] * N
        if result.round > 1:
            others = before.masked_fill(torch.eye(N, dtype=torch.bool), -torch.inf)
            assert torch.equal(others[changed], others.amax(1))
        before = after


def test_the_backends_agree_on_whom_to_ask():
    settings = {"rounds": 5, "participation": 0.75, "local_epochs": 2, "batch_size": 2}
    found = (personalized(trained(fedfomo(models=1), backend=backend, **settings)) for backend in ("fused", "loop"))
    assert_close(*found, 1e-8)


def test_only_kept_samples_count_as_gradients():
    result = list(simulation(fedfomo(val_share=0.4), local_epochs=1, local_steps=None).rounds())[1]
    assert result.scalars["gradient_evaluations"] == sum(SIZES) - (2 + 4 + 2 + 3)


def test_a_newcomer_of_fedfomo_mixes_the_models_that_suit_it():
    run = trained(fedfomo(val_share=0.4), with_newcomers(), rounds=3)
    task, start = run.task.of_unseen(), start_of(run)
    found, models = as_matrix(unseen_models(run)), as_matrix(personalized(run))
    kept, measured = split(task, torch.arange(3), 0.4)
    batches = steps_of(kept, kept.everyone(stream="newcomers"))
    for i in range(3):
        x, y = (part.numpy() for part in measured.data.train.of_client(i))
        c = np.array([(loss(start, x, y) - loss(w, x, y)) / np.linalg.norm(w - start) for w in models]).clip(0)
        mixed = start if not c.sum() else start + np.tensordot(c / c.sum(), models - start, 1)
        np.testing.assert_allclose(found[i], reference.sgd(mixed, batches[i], 0.1), atol=1e-10)


def test_a_newcomer_before_the_first_round_trains_alone():
    run = simulation(fedfomo(val_share=0), with_newcomers(), batch_size="full")
    found = as_matrix(unseen_models(run))
    task = run.task.of_unseen()
    batches = steps_of(task, task.everyone(stream="newcomers"))
    expected = [reference.sgd(start_of(run), steps, 0.1) for steps in batches]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("lost", [(2,), (0, 1, 2, 3)], ids=str)
def test_a_client_whose_upload_is_lost_has_trained_but_is_unknown_to_others(lost: tuple[int, ...]):
    run, whole = simulation("fedfomo"), simulation("fedfomo")
    run.task = replace(run.task, channel=Lossy(lost))
    first, expected = (r.algorithm.round(r.state, r.task.cohort(1), r.task)[0] for r in (run, whole))
    assert_equal(first.personal_params, expected.personal_params)
    assert first.has_uploaded.tolist() == [i not in lost for i in range(N)]
    assert_equal(row_of(first.uploads, 2), run.task.initial_model())
    second, _ = run.algorithm.round(first, run.task.cohort(2), run.task)
    unknown = replace(first, uploads={n: p.index_fill(0, torch.tensor(lost), 9.0) for n, p in first.uploads.items()})
    again, _ = run.algorithm.round(unknown, run.task.cohort(2), run.task)
    others = [i for i in range(N) if i not in lost]
    for n, p in second.personal_params.items():
        assert torch.equal(p[others], again.personal_params[n][others])
