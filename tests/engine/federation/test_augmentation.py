"""Random crops and flips: what is drawn, what it depends on, and where it is not applied."""

import numpy as np
import pytest
import torch

from engine.backends.batched import Batched
from engine.backends.loop import Loop
from engine.core.errors import Unsupported
from engine.datasets import Pool
from engine.federation.augmentation import CropFlip, crop_flip, require_images
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from tests.support.builders import SIZES, assert_close, assert_equal, federation, personalized, simulation, trained

CNN = {"name": "cnn", "hidden": 4}


def images(sizes: tuple[int, ...] = SIZES, side: int = 16) -> Federation:
    """Gray images [1, side, side] of random pixels in double precision; two test samples per client."""
    rng = np.random.default_rng(5)
    starts = np.cumsum([0, *(size + 2 for size in sizes)])
    x = rng.random((starts[-1], 1, side, side))
    pool = Pool(x, rng.integers(0, 3, starts[-1]), 3)
    train = tuple(np.arange(start, start + size) for start, size in zip(starts, sizes, strict=False))
    test = tuple(np.arange(start + size, start + size + 2) for start, size in zip(starts, sizes, strict=False))
    empty = tuple(np.zeros(0, np.int64) for _ in sizes)
    return lay_out(pool, Partition(train, empty, test, None), torch.float64, torch.device("cpu"))


def test_the_middle_crop_is_the_image_and_the_next_draw_its_mirror_image():
    x = torch.arange(2 * 2 * 3 * 5, dtype=torch.float64).view(2, 2, 3, 5) + 1
    middle = 4 + 9 * 4
    assert torch.equal(crop_flip(x, torch.tensor([middle, middle + 81])), torch.stack([x[0], x[1].flip(-1)]))


def test_a_crop_shifts_by_at_most_four_pixels_and_pads_with_zeros():
    x = torch.ones(3, 1, 6, 6)
    first, last, lowest = crop_flip(x, torch.tensor([0, 8 + 9 * 8, 8 + 9 * 4]))[:, 0]
    assert first.sum() == last.sum() == 4 and bool(first[4:, 4:].all()) and bool(last[:2, :2].all())
    assert lowest.sum() == 12 and bool(lowest[:2].all())


def test_all_crops_and_flips_are_drawn():
    draws = CropFlip(0, "batches", 1, torch.arange(40))(_pixels(), 0)
    assert len({tuple(image.flatten().tolist()) for image in draws.flatten(0, 1)}) > 140  # of 162


def _pixels() -> torch.Tensor:
    """One image [1, 9, 9] of distinct pixels, 40 x 25 times."""
    return (torch.arange(81.0) + 1).view(1, 1, 1, 9, 9).expand(40, 25, 1, 9, 9)


def test_an_augmented_batch_depends_only_on_its_seed_round_client_and_step():
    data = images()
    task = simulation("fedavg", data, model=CNN, augmentation="crop_flip").task
    cohort = task.cohort(1)
    alone = task.cohort_of([2], 1).plan
    place = cohort.clients.tolist().index(2)
    part = cohort.plan.part(place, place + 1)
    batches = [plan.batches(task.data.train) for plan in (cohort.plan, alone, part)]
    for whole, own, sliced in zip(*batches, strict=True):
        assert torch.equal(whole.x[place], own.x[0]) and torch.equal(whole.x[place], sliced.x[0])
    xs = [
        next(iter(plan.batches(task.data.train))).x
        for plan in (alone, task.cohort_of([2], 2).plan, task.cohort_of([2], 1, "finetune").plan)
    ]
    assert not torch.equal(xs[0], xs[1]) and not torch.equal(xs[0], xs[2])


def test_a_range_of_steps_has_the_batches_of_the_full_plan():
    task = simulation("fedavg", images(), model=CNN, augmentation="crop_flip", local_epochs=2).task
    plan = task.cohort(1).plan
    whole, stretch = (list(p.batches(task.data.train)) for p in (plan, plan.between(1, 4).between(1, 3)))
    assert len(stretch) == 2
    for expected, found in zip(whole[2:4], stretch, strict=True):
        assert expected.counts == found.counts and torch.equal(expected.x, found.x)


def test_the_models_of_a_client_see_the_same_augmented_batches():
    task = simulation("fedavg", images(), model=CNN, augmentation="crop_flip", local_epochs=1).task
    plan = task.cohort(1).plan
    for once, twice in zip(*(p.batches(task.data.train) for p in (plan, plan.repeat(2))), strict=True):
        assert torch.equal(once.x.repeat_interleave(2, 0), twice.x)


def test_both_paths_of_a_method_see_the_same_augmented_batches():
    options = {"model": CNN, "augmentation": "crop_flip"}
    ditto = trained({"name": "ditto", "lam": 0.0}, images(), rounds=1, **options)
    assert_equal(personalized(ditto), personalized(trained("local_train", images(), rounds=1, **options)))
    plain = trained("local_train", images(), rounds=1, model=CNN)
    assert not torch.equal(personalized(ditto)["head.weight"], personalized(plain)["head.weight"])


def test_full_batches_are_augmented_differently_in_every_step():
    task = simulation("fedavg", images(), model=CNN, augmentation="crop_flip", batch_size="full").task
    first, second, *_ = task.cohort(1).plan.batches(task.data.train)
    assert first.x.shape == second.x.shape and not torch.equal(first.x, second.x)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_augmented_training_does_not_depend_on_the_chunk_size(backend, monkeypatch):
    options = {"model": CNN, "augmentation": "crop_flip", "local_epochs": 2, "rounds": 1, "participation": 0.75}
    expected = personalized(trained("fedavg", images(), backend="loop", **options))
    kind = {"loop": Loop, "batched": Batched}[backend]
    monkeypatch.setattr(kind, "chunk_size", lambda *_: 2)
    assert_close(personalized(trained("fedavg", images(), backend=backend, **options)), expected, 1e-10)


def test_evaluation_uses_unaugmented_images():
    plain, augmented = (
        next(simulation("fedavg", images(), model=CNN, augmentation=a).rounds()) for a in ("none", "crop_flip")
    )
    for name, values in plain.arrays.items():
        assert values.tobytes() == augmented.arrays[name].tobytes(), name


def test_augmentation_is_refused_for_other_data_than_images():
    with pytest.raises(Unsupported, match=r"\[5\]; use augmentation: none"):
        simulation("fedavg", federation(), augmentation="crop_flip")


def test_gray_images_without_a_channel_axis_are_refused_with_advice():
    with pytest.raises(Unsupported, match=r"\[8, 8\]; .*; gray images need a channel axis: save x\[:, None\]$"):
        require_images("crop_flip", (8, 8))
    with pytest.raises(Unsupported, match=r"such as cifar10$"):
        require_images("crop_flip", (5,))
    require_images("crop_flip", (1, 8, 8))
