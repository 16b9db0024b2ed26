"""Feature shift: the data of each group of clients, on images of a few pixels."""

from typing import Any

import numpy as np
import pytest
import torch

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.federation.clients import lay_out
from engine.partitioners import Partition
from engine.partitioners.shifts import Levels, Rotation

CORNER = np.array([[9, 1], [0, 0]], np.uint8)


def images(channels: int = 1, num: int = 24, **given: Any) -> Pool:
    """Every sample is the same 2 x 2 image in each channel, plus the channel's index."""
    x = np.stack([CORNER + 20 * c for c in range(channels)])[None].repeat(num, 0).astype(np.uint8)
    return Pool(x, np.arange(num, dtype=np.int64) % 2, 2, **{"scale": 1 / 255, **given})


def shifted(pool: Pool, seed: int = 0, **options: Any) -> Partition:
    entry = PARTITIONERS.get("feature_shift")
    made = entry.make(entry.options(**{"num_clients": 4, "min_samples": 1, **options}))
    return made.split(pool, np.random.default_rng(seed))


def seen(pool: Pool, **options: Any) -> list[np.ndarray]:
    """The stored training samples of each client."""
    return samples(pool, shifted(pool, **options))


def samples(pool: Pool, partition: Partition, which: str = "train") -> list[np.ndarray]:
    data = getattr(lay_out(pool, partition, torch.float32, torch.device("cpu")), which)
    return list(np.split(data.pool.x[data.rows].numpy(), data.offsets[1:-1].tolist()))


def test_groups_are_rotated_by_quarter_turns_counterclockwise():
    expected = [[[9, 1], [0, 0]], [[1, 0], [9, 0]], [[0, 0], [1, 9]], [[0, 9], [0, 1]]]
    for client, own in enumerate(seen(images())):
        assert own.dtype == np.uint8
        assert (own == np.array(expected[client])).all()


def test_test_samples_are_shifted_like_training_samples():
    pool = images()
    train, test = (samples(pool, shifted(pool), which) for which in ("train", "test"))
    assert all((own[0] == other[0]).all() for own, other in zip(train, test, strict=True))


def test_clients_are_assigned_in_turn_to_groups_which_are_contexts():
    assert shifted(images(), num_clients=5, num_groups=2).contexts.tolist() == [0, 1, 0, 1, 0]


def test_samples_are_distributed_as_under_iid():
    entry = PARTITIONERS.get("iid")
    plain = entry.make(entry.options(num_clients=4)).split(images(), np.random.default_rng(0))
    partition = shifted(images())
    assert all((a == b).all() for a, b in zip(plain.train + plain.test, partition.train + partition.test, strict=True))


def test_angles_close_to_quarter_turns_agree_with_them():
    picture = np.add.outer(np.arange(9.0), 3 * np.arange(9.0))[None, None]
    levels = Levels(0, 32)
    near, exact = (Rotation(angle, levels)(picture, np.array([0])) for angle in (89.99, 90))
    assert not np.array_equal(near, exact)
    assert abs(near - exact)[..., 1:-1, 1:-1].max() < 0.02


def test_images_that_are_not_square_keep_their_shape():
    pool = Pool(np.ones((24, 1, 2, 3), np.uint8), np.zeros(24, np.int64), 1)
    assert {own.shape[1:] for own in seen(pool)} == {(1, 2, 3)}


def test_noise_grows_from_group_to_group():
    pool = Pool(np.zeros((4000, 5)), np.zeros(4000, np.int64), 1)
    deviations = [own.std() for own in seen(pool, kind="noise", strength=0.6)]
    assert deviations == pytest.approx([0, 0.2, 0.4, 0.6], rel=0.05)


def test_noise_on_pixels_is_scaled_and_clipped_to_their_range():
    pool = Pool(np.full((4000, 1, 2, 2), 128, np.uint8), np.zeros(4000, np.int64), 1, scale=1 / 255)
    noisy = seen(pool, kind="noise", num_groups=2, strength=0.1)[1]
    assert noisy.dtype == np.uint8
    assert (noisy / 255).std() == pytest.approx(0.1, rel=0.05)
    dark = seen(images(num=400), kind="noise", num_groups=2, strength=1.0)[1]
    assert dark.min() == 0 and dark.max() == 255


@pytest.mark.parametrize("options", [{"kind": "noise", "strength": 1e-6}, {"kind": "colour"}])
def test_noise_on_integers_stays_in_their_range(options: dict[str, Any]):
    for own in seen(images(channels=3, scale=1.0), **options):
        assert own.dtype == np.uint8
        assert own.max() > 20


def test_the_noise_of_a_sample_does_not_depend_on_other_samples():
    pool = Pool(np.zeros((40, 3)), np.zeros(40, np.int64), 1)
    shift = shifted(pool, kind="noise").shifts[3]
    rows = np.array([3, 7, 11])
    assert (shift(pool.x[rows], rows)[1] == shift(pool.x[rows[1:]], rows[1:])[0]).all()
    assert (shift(pool.x[rows], rows)[0] != shift(pool.x[rows], rows)[1]).all()


def test_gray_images_have_two_color_groups():
    plain, inverted = seen(images(), kind="colour", num_clients=2, num_groups=2)
    assert (plain == CORNER).all()
    assert (inverted == 255 - CORNER.astype(int)).all()


def test_colors_are_permuted_and_then_inverted():
    looks = seen(images(channels=3), kind="colour", num_clients=4, num_groups=4)
    assert [own[0, :, 1, 1].tolist() for own in looks] == [
        [0, 20, 40],
        [40, 0, 20],
        [20, 40, 0],
        [255, 235, 215],
    ]


def test_strength_blends_old_and_new_colors():
    mixed = seen(images(channels=3), kind="colour", num_clients=2, num_groups=2, strength=0.25)[1]
    assert mixed[0, :, 1, 1].tolist() == [10, 15, 35]


@pytest.mark.parametrize("kind", ["rotation", "noise", "colour"])
def test_zero_strength_is_no_shift(kind: str):
    for own in seen(images(), kind=kind, num_groups=2, strength=0.0):
        assert (own == CORNER).all()


def test_a_common_test_set_is_not_shifted():
    pool = images(common_test=(images().x[:3], images().y[:3]))
    common = lay_out(pool, shifted(pool), torch.float32, torch.device("cpu")).common_test
    assert (common.pool.x.numpy() == CORNER).all()


@pytest.mark.parametrize(
    ("pool", "options", "words"),
    [
        (
            Pool(np.zeros((24, 5)), np.zeros(24, np.int64), 1),
            {},
            r"kind=rotation requires images.*\[5\]; use kind: noise, or a data set of images$",
        ),
        (
            Pool(np.zeros((24, 4, 4)), np.zeros(24, np.int64), 1),
            {},
            r"\[4, 4\]; use .*; gray images need a channel axis: save x\[:, None\]$",
        ),
        (images(), {"kind": "colour"}, "num_groups=4 exceeds the 2 color variants of images with 1 channel "),
        (images(), {"kind": "colour", "num_groups": 2, "strength": 0.5}, "strength=0.5 .* uniform gray"),
        (Pool(np.ones((24, 5), np.int32), np.zeros(24, np.int64), 1), {"kind": "noise"}, "token ids.*use .* bag"),
    ],
)
def test_shifts_that_do_not_suit_the_data_are_refused(pool: Pool, options: dict[str, Any], words: str):
    with pytest.raises(ImpossiblePartition, match=words):
        shifted(pool, **options)


def test_more_groups_than_clients_are_refused():
    with pytest.raises(ValueError, match="num_groups=9 exceeds num_clients=4; lower num_groups"):
        shifted(images(), num_groups=9)
