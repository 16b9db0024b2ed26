"""Clipping, learning-rate schedules and augmentation: what they do to the numbers, and what they leave alone."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from engine.augmentation import CropFlip, crop_flip
from engine.backends.batched import Batched
from engine.backends.clipped import Clipped
from engine.backends.fused import Fused
from engine.backends.loop import Loop
from engine.config import Training
from engine.datasets import Pool
from engine.errors import InvalidConfig, Unsupported
from engine.federation import Federation, lay_out
from engine.partitioners import Partition
from tests.engine.test_backends import batch_of, model_of, stacked
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    beyond,
    config,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
)
from tests.support.reference import as_matrix, batches_of

PFEDME = {"name": "pfedme", "lam": 5.0, "inner_steps": 3, "personal_lr": 0.1}
CNN = {"name": "cnn", "hidden": 4}


def images(sizes: tuple[int, ...] = SIZES, side: int = 16) -> Federation:
    """Grey images [1, side, side] of random pixels in double precision; two test samples a client."""
    rng = np.random.default_rng(5)
    starts = np.cumsum([0, *(size + 2 for size in sizes)])
    x = rng.random((starts[-1], 1, side, side))
    pool = Pool(x, rng.integers(0, 3, starts[-1]), 3)
    train = tuple(np.arange(start, start + size) for start, size in zip(starts, sizes, strict=False))
    test = tuple(np.arange(start + size, start + size + 2) for start, size in zip(starts, sizes, strict=False))
    empty = tuple(np.zeros(0, np.int64) for _ in sizes)
    return lay_out(pool, Partition(train, empty, test, None), torch.float64, torch.device("cpu"))


def clipped(gradient: np.ndarray, norm: float) -> np.ndarray:
    return gradient * min(1, norm / np.linalg.norm(gradient))


# --- clip_norm


def test_a_clipped_step_is_as_long_as_the_norm_allows():
    run = trained("local_train", rounds=1, local_steps=3, clip_norm=0.05)
    start = as_matrix(run.task.initial_model())
    for i, batches in enumerate(batches_of(run, 1)):
        W = start
        for x, y in batches:
            assert np.linalg.norm(reference.gradient(W, x, y)) > 0.05  # else this says nothing
            W = W - 0.1 * clipped(reference.gradient(W, x, y), 0.05)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], W, atol=1e-12)


@pytest.mark.parametrize("method", ["fedavg", {"name": "ditto", "lam": 0.5}, PFEDME])
def test_a_norm_that_no_gradient_reaches_changes_nothing(method):
    assert_close(personalized(trained(method, clip_norm=1e6)), personalized(trained(method)), 1e-13)


def test_a_norm_beyond_single_precision_changes_nothing_either():
    data = federation(dtype=torch.float32)
    clipped_run = beyond("fedavg", data, training={"clip_norm": 1e300}, dtype="float32")
    assert len(list(clipped_run.rounds())) == 3
    plain = trained("fedavg", data, dtype="float32")
    assert_close(shared_model(clipped_run), shared_model(plain), 1e-6)


def test_each_clients_gradient_is_clipped_by_itself():
    model = model_of("mlr")
    params, batch = stacked(model, 2), batch_of((4, 4))
    batch = dataclasses.replace(batch, x=batch.x * torch.tensor([1e-3, 10.0])[:, None, None])
    plain, out = ({n: torch.zeros_like(p) for n, p in params.items()} for _ in range(2))
    Batched(model).accumulate(plain, params, batch, 1.0, 0.0)
    Clipped(Batched(model), 1.5).accumulate(out, params, batch, 1.0, 0.0)
    assert_equal({n: g[:1] for n, g in out.items()}, {n: g[:1] for n, g in plain.items()})
    assert torch.cat([g[1].flatten() for g in out.values()]).norm() == pytest.approx(1.5)


def test_the_norm_is_of_the_parameters_that_train():
    model = model_of("dnn", hidden=4)
    params, batch = stacked(model, 1), batch_of((4,))
    out = {n: torch.zeros_like(params[n]) for n in model.head}
    Clipped(Loop(model), 1e-3).accumulate(out, params, batch, 1.0, 0.0)
    assert torch.cat([g.flatten() for g in out.values()]).norm() == pytest.approx(1e-3)


@pytest.mark.parametrize("model", ["mlr", {"name": "dnn", "hidden": 6}], ids=["mlr", "dnn"])
@pytest.mark.parametrize("method", ["fedavg", {"name": "ditto", "lam": 0.5}, PFEDME])
def test_clipping_agrees_between_backends_and_chunks(method, model, monkeypatch):
    options = {"model": model, "clip_norm": 0.05, "momentum": 0.5, "local_epochs": 2}
    expected = personalized(trained(method, backend="loop", **options))
    assert_close(personalized(trained(method, backend="batched", **options)), expected, 1e-10)
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 3)
    assert_close(personalized(trained(method, backend="fused", **options)), expected, 1e-10)


def test_the_pull_of_a_proximal_term_is_not_clipped():
    run = trained({"name": "fedprox", "mu": 0.7}, rounds=1, clip_norm=0.05)
    start, ends = as_matrix(run.task.initial_model()), []
    for batches in batches_of(run, 1):
        W = start
        for x, y in batches:
            W = W - 0.1 * (clipped(reference.gradient(W, x, y), 0.05) + 0.7 * (W - start))
        ends.append(W)
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.average(ends, axis=0, weights=SIZES), atol=1e-12)


def test_the_inner_steps_of_pfedme_are_clipped():
    run = trained(PFEDME, rounds=1, clip_norm=0.05)
    start = as_matrix(run.task.initial_model())
    for i, batches in enumerate(batches_of(run, 1)):
        theta, w = start, start
        for x, y in batches:
            for _ in range(3):
                theta = theta - 0.1 * (clipped(reference.gradient(theta, x, y), 0.05) + 5 * (theta - w))
            w = w - 0.1 * 5 * (w - theta)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], theta, atol=1e-12)


# --- lr_schedule


def test_the_learning_rate_of_a_round():
    cosine = Training(rounds=4, lr=1.0, lr_schedule="cosine")
    assert [cosine.in_round(r).lr for r in range(5)] == pytest.approx([1, 1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5])
    step = Training(rounds=9, lr=0.8, lr_schedule="step", lr_decay=0.5, lr_decay_rounds=3)
    assert [step.in_round(r).lr for r in (0, 1, 3, 4, 6, 7)] == pytest.approx([0.8, 0.8, 0.8, 0.4, 0.4, 0.2])
    constant = Training(rounds=9)
    assert constant.in_round(7) is constant


def test_a_rate_that_decays_for_long_stays_above_zero():
    run = simulation({"name": "scaffold"}, rounds=4, lr_schedule="step", lr_decay=1e-200, lr_decay_rounds=1)
    results = list(run.rounds())
    assert run.task.training.lr > 0
    assert not any(r.diverged for r in results)


def test_a_scheduled_round_trains_at_its_own_rate():
    halved = {"lr_schedule": "step", "lr_decay": 0.5, "lr_decay_rounds": 1}
    run = trained("local_train", rounds=3, **halved)
    start = as_matrix(run.task.initial_model())
    rounds = [batches_of(run, r) for r in (1, 2, 3)]
    for i, found in enumerate(as_matrix(personalized(run))):
        W = start
        for batches, lr in zip(rounds, (0.1, 0.05, 0.025), strict=True):
            W = reference.sgd(W, batches[i], lr)
        np.testing.assert_allclose(found, W, atol=1e-12)


def test_rates_that_follow_training_are_scheduled_and_rates_of_ones_own_stay():
    options = {"rounds": 4, "lr_schedule": "cosine"}
    follows, stays = (trained({"name": "ditto", "personal_lr": lr}, **options) for lr in ("training", 0.1))
    assert follows.algorithm.hparams.personal_lr == follows.task.training.lr < 0.1
    assert stays.algorithm.hparams.personal_lr == 0.1
    assert_equal(shared_model(follows), shared_model(stays))
    assert not torch.equal(personalized(follows)["head.weight"], personalized(stays)["head.weight"])


def test_what_is_tuned_for_use_takes_the_rate_as_set():
    run = trained({"name": "fedavg", "finetune_steps": 2}, rounds=4, lr_schedule="cosine")
    as_set = dataclasses.replace(run.task, training=run.config.training)
    assert_equal(run.models().personalized[1], run.algorithm.personalized(run.state, as_set).of_client(1))
    assert not torch.equal(run.models().personalized[1]["head.weight"], personalized(run)["head.weight"][1])


def test_a_scheduled_run_continues_from_a_checkpoint_at_the_rate_of_its_round():
    options = {"rounds": 5, "lr_schedule": "cosine"}
    method = {"name": "fedavg", "finetune_steps": 2}
    whole, first = trained(method, **options), simulation(method, **options)
    for _ in itertools.islice(first.rounds(), 4):
        pass
    second = simulation(method, **options)
    second.restore(first.checkpoint())
    assert_equal(second.models().personalized[0], first.models().personalized[0])
    for _ in second.rounds():
        pass
    assert_equal(personalized(second), personalized(whole))
    assert_equal(second.models("best").personalized[1], whole.models("best").personalized[1])


# --- augmentation


def test_the_middle_crop_is_the_image_and_the_next_draw_mirrors_it():
    x = torch.arange(2 * 2 * 3 * 5, dtype=torch.float64).view(2, 2, 3, 5) + 1
    middle = 4 + 9 * 4
    assert torch.equal(crop_flip(x, torch.tensor([middle, middle + 81])), torch.stack([x[0], x[1].flip(-1)]))


def test_a_crop_moves_the_image_by_at_most_four_pixels_and_fills_with_zeros():
    x = torch.ones(3, 1, 6, 6)
    first, last, lowest = crop_flip(x, torch.tensor([0, 8 + 9 * 8, 8 + 9 * 4]))[:, 0]
    assert first.sum() == last.sum() == 4 and bool(first[4:, 4:].all()) and bool(last[:2, :2].all())
    assert lowest.sum() == 12 and bool(lowest[:2].all())


def test_all_crops_and_both_sides_are_drawn():
    draws = CropFlip(0, "batches", 1, torch.arange(40))(_pixels(), 0)
    assert len({tuple(image.flatten().tolist()) for image in draws.flatten(0, 1)}) > 140  # of 162


def _pixels() -> torch.Tensor:
    """The same image [1, 9, 9] 40 x 25 times, its pixels all different."""
    return (torch.arange(81.0) + 1).view(1, 1, 1, 9, 9).expand(40, 25, 1, 9, 9)


def test_an_augmented_batch_depends_on_nothing_but_its_own_names():
    data = images()
    task = simulation("fedavg", data, model=CNN, augmentation="crop_flip").task
    cohort = task.cohort(1)
    alone = task.cohort_of([2], 1).plan
    place = cohort.clients.tolist().index(2)
    part = cohort.plan.part(place, place + 1)
    batches = [plan.batches(task.data.train) for plan in (cohort.plan, alone, part)]
    for whole, own, sliced in zip(*batches, strict=True):
        assert torch.equal(whole.x[place], own.x[0]) and torch.equal(whole.x[place], sliced.x[0])
    xs = [next(iter(plan.batches(task.data.train))).x for plan in (
        alone, task.cohort_of([2], 2).plan, task.cohort_of([2], 1, "finetune").plan)]  # fmt: skip
    assert not torch.equal(xs[0], xs[1]) and not torch.equal(xs[0], xs[2])


def test_a_stretch_of_the_steps_has_the_batches_that_the_whole_has():
    task = simulation("fedavg", images(), model=CNN, augmentation="crop_flip", local_epochs=2).task
    plan = task.cohort(1).plan
    whole, stretch = (list(p.batches(task.data.train)) for p in (plan, plan.between(1, 4).between(1, 3)))
    assert len(stretch) == 2
    for expected, found in zip(whole[2:4], stretch, strict=True):
        assert expected.counts == found.counts and torch.equal(expected.x, found.x)


def test_both_paths_of_a_method_see_the_same_augmented_batches():
    options = {"model": CNN, "augmentation": "crop_flip"}
    ditto = trained({"name": "ditto", "lam": 0.0}, images(), rounds=1, **options)
    assert_equal(personalized(ditto), personalized(trained("local_train", images(), rounds=1, **options)))
    plain = trained("local_train", images(), rounds=1, model=CNN)
    assert not torch.equal(personalized(ditto)["head.weight"], personalized(plain)["head.weight"])


def test_full_batches_are_augmented_anew_in_every_step():
    task = simulation("fedavg", images(), model=CNN, augmentation="crop_flip", batch_size="full").task
    first, second, *_ = task.cohort(1).plan.batches(task.data.train)
    assert first.x.shape == second.x.shape and not torch.equal(first.x, second.x)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_augmented_training_does_not_depend_on_the_chunk_size(backend, monkeypatch):
    options = {"model": CNN, "augmentation": "crop_flip", "local_epochs": 2, "rounds": 1}
    expected = personalized(trained("fedavg", images(), backend="loop", **options))
    kind = {"loop": Loop, "batched": Batched}[backend]
    monkeypatch.setattr(kind, "chunk_size", lambda *_: 3)
    assert_close(personalized(trained("fedavg", images(), backend=backend, **options)), expected, 1e-10)


def test_evaluation_sees_the_images_as_they_are():
    plain, augmented = (
        next(simulation("fedavg", images(), model=CNN, augmentation=a).rounds()) for a in ("none", "crop_flip")
    )
    for name, values in plain.arrays.items():
        assert values.tobytes() == augmented.arrays[name].tobytes(), name


def test_samples_that_are_no_images_cannot_be_cropped():
    with pytest.raises(Unsupported, match=r"\[5\]; use augmentation: none"):
        simulation("fedavg", federation(), augmentation="crop_flip")


# --- the options themselves


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"clip_norm": 0}, "training.clip_norm"),
        ({"lr_schedule": "linear"}, "training.lr_schedule"),
        ({"lr_decay": 1.5}, "training.lr_decay"),
        ({"lr_decay_rounds": 0}, "training.lr_decay_rounds"),
        ({"augmentation": "noise"}, "training.augmentation"),
    ],
)
def test_a_value_out_of_range_is_named(changed, field):
    with pytest.raises(InvalidConfig, match=field):
        config("fedavg", **changed)
