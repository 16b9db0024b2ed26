"""The choice of clients that are held out of training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.core.errors import ImpossiblePartition
from engine.core.registry import DATASETS, PARTITIONERS
from engine.core.streams import numpy_stream
from engine.datasets import Pool
from engine.federation.clients import lay_out
from engine.partitioners import Partition, hold_out, summarize


def pool_of(num_samples: int = 100) -> Pool:
    y = np.arange(num_samples, dtype=np.int64) % 10
    return Pool(np.arange(num_samples, dtype=np.float64)[:, None], y, 10)


def whole(num_clients: int = 10, **options: Any) -> Partition:
    entry = PARTITIONERS.get("classes_per_client")
    made = entry.make(entry.options(num_clients=num_clients, assignment="cyclic", min_samples=1, **options))
    return made.split(pool_of(), np.random.default_rng(0))


def held_out(share: float, seed: int = 0) -> Partition:
    return hold_out(whole(), share, numpy_stream(seed, "holdout"))


def test_held_out_clients_are_removed_and_the_others_renumbered():
    partition, everyone = held_out(0.3), whole()
    assert len(partition.train) == 7 and len(partition.unseen.train) == 3
    assert sorted([*partition.clients, *partition.unseen.clients]) == list(range(10))
    for part in (partition, partition.unseen):
        for new, old in enumerate(part.clients):
            assert (part.train[new] == everyone.train[old]).all()
            assert (part.test[new] == everyone.test[old]).all()
            assert part.contexts[new] == everyone.contexts[old]


def test_the_held_out_clients_depend_only_on_the_seed():
    first, again, other = (held_out(0.3, seed).unseen.clients.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_a_share_of_zero_changes_nothing():
    partition = held_out(0.0)
    assert partition.unseen is None and partition.clients is None and partition.notes == ()
    assert summarize(pool_of(), partition).unseen is None


def test_a_share_of_less_than_one_client_is_noted():
    assert "holdout_clients=0.04 of 10 clients is below one" in held_out(0.04).notes[0]


def test_holding_out_every_client_is_refused():
    with pytest.raises(ImpossiblePartition, match=r"holdout_clients=0\.96 leaves none of 10 clients to train; lower"):
        held_out(0.96)


@pytest.mark.parametrize("entry", list(PARTITIONERS), ids=lambda entry: entry.name)
def test_every_partitioner_can_hold_out_clients(entry):
    assert "holdout_clients" in entry.options.model_fields


def generated() -> Pool:
    """Six clients with 20 samples each, and their true models."""
    data = DATASETS.get("synthetic")
    return data.make(data.options(num_clients=6, samples_per_client=20)).load(Path(), np.random.default_rng(0), None)


def natural(pool: Pool, **options: Any) -> Partition:
    entry = PARTITIONERS.get("natural")
    return entry.make(entry.options(**options)).split(pool, np.random.default_rng(0))


def test_true_models_are_held_out_with_their_clients():
    pool = generated()
    laid = lay_out(pool, hold_out(natural(pool), 0.5, np.random.default_rng(1)), torch.float64, torch.device("cpu"))
    seen = sorted(set(range(6)) - set(laid.summary.unseen.clients))
    assert (laid.truth["weights"] == pool.truth["weights"][seen]).all()
    assert (laid.unseen.truth["weights"] == pool.truth["weights"][list(laid.summary.unseen.clients)]).all()


def test_true_models_are_those_of_the_natural_clients_that_are_used():
    pool = generated()
    partition = natural(pool, max_groups=4)
    chosen = [int(pool.client[rows[0]]) for rows in partition.train]
    assert chosen != [0, 1, 2, 3]
    laid = lay_out(pool, partition, torch.float64, torch.device("cpu"))
    assert (laid.truth["weights"] == pool.truth["weights"][chosen]).all()
    held = lay_out(pool, hold_out(partition, 0.5, np.random.default_rng(1)), torch.float64, torch.device("cpu"))
    unseen = [chosen[i] for i in held.summary.unseen.clients]
    assert (held.unseen.truth["weights"] == pool.truth["weights"][unseen]).all()


@pytest.mark.parametrize("options", [{"clients_per_group": 2}, {"clients_per_group": 2, "max_groups": 3}])
def test_clients_that_share_a_natural_client_have_no_true_models(options):
    pool = generated()
    assert lay_out(pool, natural(pool, **options), torch.float64, torch.device("cpu")).truth is None
