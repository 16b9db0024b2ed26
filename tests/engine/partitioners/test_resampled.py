"""Clients that draw their own samples from the pool, and may share them."""

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.federation.clients import lay_out
from engine.partitioners import Partition, hold_out, summarize


def pool_of(num_samples: int, num_classes: int = 10, **given: Any) -> Pool:
    """The feature of sample i is i."""
    y = np.arange(num_samples, dtype=np.int64) % num_classes
    return Pool(np.arange(num_samples, dtype=np.float64)[:, None], y, num_classes, **given)


def resampled(pool: Pool, seed: int = 0, **options: Any) -> Partition:
    entry = PARTITIONERS.get("resampled")
    return entry.make(entry.options(**options)).split(pool, np.random.default_rng(seed))


def test_more_clients_than_samples_each_have_distinct_samples_of_the_given_number():
    partition = resampled(pool_of(100), num_clients=500, samples_per_client=20)
    for parts, size in ((partition.train, 15), (partition.val, 0), (partition.test, 5)):
        assert len(parts) == 500
        assert all(len(np.unique(part)) == len(part) == size for part in parts)
    assert all((np.diff(part) > 0).all() for part in partition.train)


def test_no_client_trains_on_a_sample_that_another_is_tested_on():
    partition = resampled(pool_of(60), num_clients=80, samples_per_client=10, val_fraction=0.2)
    train, val, test = (set(np.concatenate(p)) for p in (partition.train, partition.val, partition.test))
    assert not train & test and not train & val and not val & test
    assert len(train) + len(val) + len(test) == 60  # with so many draws all of them are used


def test_every_sample_is_drawn_equally_often():
    counts = np.bincount(np.concatenate(resampled(pool_of(40), num_clients=4000, samples_per_client=4).train))
    used = counts[counts > 0]
    assert len(used) == 30
    assert abs(used - 4000 * 3 / 30).max() < 5 * np.sqrt(400)  # five standard deviations


def test_a_client_may_take_all_samples_there_are():
    partition = resampled(pool_of(8), num_clients=3, samples_per_client=8, test_fraction=0.25)
    assert {tuple(part) for part in partition.train} == {tuple(partition.train[0])}
    assert len(partition.train[0]) == 6 and len(partition.test[0]) == 2


def test_a_small_alpha_gives_clients_few_classes_and_none_gives_them_all():
    def classes(**options: Any) -> float:
        partition = resampled(pool, num_clients=50, samples_per_client=20, **options)
        return float((np.array(summarize(pool, partition).class_counts) > 0).sum(axis=1).mean())

    pool = pool_of(4000)
    assert classes(alpha=0.1) < 3 < 8 < classes(alpha=1e5)
    assert classes() > 8


def test_the_seed_decides_the_draw():
    first, again, other = (resampled(pool_of(90), seed, num_clients=9).train.indices for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


def test_a_split_that_comes_with_the_data_is_kept():
    pool = pool_of(100, split=(np.arange(100) >= 80).astype(np.int64))
    partition = resampled(pool, num_clients=30, samples_per_client=8)
    assert np.concatenate(partition.train).max() < 80 <= np.concatenate(partition.test).min()


def test_clients_can_be_held_out():
    partition = hold_out(resampled(pool_of(100), num_clients=10), 0.3, np.random.default_rng(0))
    assert len(partition.train) == 7 and len(partition.unseen.test) == 3


def test_clients_hold_indices_into_one_pool():
    pool = pool_of(50)
    data = lay_out(pool, resampled(pool, num_clients=300), torch.float64, torch.device("cpu"))
    assert data.train.pool is data.test.pool and len(data.train.pool.x) == 50
    assert data.train.num_samples == 300 * 15 and data.summary.train_sizes == (15,) * 300
    x, y = data.train.of_client(7)
    assert (x[:, 0].long() % 10 == y).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples_per_client": 60, "test_fraction": 0}, "draws 60 train samples of all classes, which has 40"),
        ({"samples_per_client": 20, "alpha": 0.01}, "train samples of class .*, or raise alpha"),
    ],
)
def test_more_samples_than_there_are_cannot_be_drawn(options, words):
    with pytest.raises(ImpossiblePartition, match=words):
        resampled(pool_of(40), num_clients=5, **options)


def test_a_client_needs_samples_to_train_on():
    with pytest.raises(ValidationError, match="leaves fewer than min_samples=3"):
        PARTITIONERS.get("resampled").options(samples_per_client=4, test_fraction=0.5, min_samples=3)
