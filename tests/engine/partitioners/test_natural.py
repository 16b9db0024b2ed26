"""Natural clients: one for each that comes with the data, several, or some."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.schema import parse_experiment
from engine.core.errors import ImpossiblePartition
from engine.partitioners.natural import NaturalOptions
from tests.engine.partitioners.test_every_partitioner import pool_of, split, used

DOMAINS = np.array([0] * 20 + [1] * 12 + [2] * 28)  # sizes 20, 12, 28


def owners(partition, pool) -> list[set[int]]:
    """The natural clients of the samples of each client."""
    parts = zip(partition.train, partition.val, partition.test, strict=True)
    return [set(pool.client[np.concatenate(own)].tolist()) for own in parts]


@given(each=st.integers(1, 4), seed=st.integers(0, 2**32), val_fraction=st.floats(0, 0.3))
def test_the_clients_of_a_group_share_its_samples_evenly(each, seed, val_fraction):
    pool = pool_of(60, client=DOMAINS)
    partition = split("natural", pool, seed, clients_per_group=each, val_fraction=val_fraction)
    assert owners(partition, pool) == [{domain} for domain in range(3) for _ in range(each)]
    assert sorted(used(partition)) == list(range(60))
    sizes = np.array([sum(map(len, own)) for own in zip(partition.train, partition.val, partition.test, strict=True)])
    assert (np.ptp(sizes.reshape(3, each), axis=1) <= 1).all()


def test_groups_are_the_true_contexts_of_several_clients():
    pool = pool_of(60, client=DOMAINS)
    assert split("natural", pool).contexts is None
    assert split("natural", pool, clients_per_group=2).contexts.tolist() == [0, 0, 1, 1, 2, 2]
    known = pool_of(60, client=DOMAINS, contexts=np.array([5, 5, 3]))
    assert split("natural", known, clients_per_group=2).contexts.tolist() == [5, 5, 5, 5, 3, 3]


def test_test_samples_that_come_with_the_data_are_shared_as_evenly():
    pool = pool_of(60, client=DOMAINS, split=(np.arange(60) % 4 == 0).astype(np.int64))
    partition = split("natural", pool, clients_per_group=2)
    assert [len(rows) for rows in partition.test] == [3, 2, 2, 1, 4, 3]
    assert all((pool.split[rows] == 1).all() for rows in partition.test)
    assert all((pool.split[rows] == 0).all() for rows in partition.train)


def test_some_of_many_groups_are_drawn_by_the_seed():
    pool = pool_of(400, client=np.arange(400) // 10, contexts=np.arange(40))
    drawn = [split("natural", pool, seed, max_groups=5) for seed in (0, 0, 1)]
    chosen = [partition.contexts.tolist() for partition in drawn]
    assert chosen[0] == chosen[1] != chosen[2]
    assert owners(drawn[0], pool) == [{group} for group in chosen[0]]
    assert len(split("natural", pool, max_groups=50).train) == 40


def test_without_these_options_the_split_and_digest_of_stored_runs_stay():
    assert set(NaturalOptions().model_dump(mode="json")) == {
        "test_fraction",
        "val_fraction",
        "min_samples",
        "holdout_clients",
    }
    assert NaturalOptions(clients_per_group=2, max_groups=3).model_dump()["max_groups"] == 3
    config = {"dataset": "synthetic", "partition": "natural", "model": "mlr", "algorithms": ["fedavg"]}
    assert parse_experiment(config).runs()[0].digest.startswith("5948beb69cf8b6cf")


def test_the_split_is_described_in_words():
    assert NaturalOptions().in_words() == "natural clients"
    assert NaturalOptions(clients_per_group=3).in_words() == "3 clients per natural group"


def test_a_group_that_is_too_small_for_its_clients_is_refused():
    with pytest.raises(ImpossiblePartition, match=r"client [01] keeps 1 of 1 samples for training"):
        split("natural", pool_of(6, client=np.array([0, 0, 1, 1, 1, 1])), clients_per_group=2)
