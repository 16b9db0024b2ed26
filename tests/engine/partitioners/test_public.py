"""Public samples: which are taken, and that the clients never have them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.core.streams import numpy_stream
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out, load_pool, partition_pool
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

OPTIONS: dict[str, dict[str, Any]] = {
    "natural": {},
    "feature_shift": {"kind": "noise", "num_clients": 4},
    "contexts": {"num_clients": 4, "num_contexts": 2},
}
NAMES = PARTITIONERS.names()


def pool_of(num_samples: int = 400, **given: Any) -> Pool:
    """The feature of sample i is i; four clients take turns."""
    y = np.arange(num_samples, dtype=np.int64) % 10
    given = {"client": np.arange(num_samples) % 4} | given
    return Pool(np.arange(num_samples, dtype=np.float64)[:, None], y, 10, **given)


def config(name: str = "iid", seed: int = 0, algorithm: Any = "fedavg", **options: Any) -> RunConfig:
    chosen = OPTIONS.get(name, {"num_clients": 4}) | options
    raw = {"dataset": "digits", "model": "mlr", "algorithms": [algorithm], "seeds": [seed]}
    training = {"rounds": 2, "local_steps": 2, "dtype": "float64"}
    return parse_experiment(raw | {"partition": {"name": name} | chosen, "training": training}).runs()[0]


def parts_of(partition: Partition) -> list[np.ndarray]:
    return [np.concatenate([*parts, np.zeros(0, int)]) for parts in (partition.train, partition.val, partition.test)]


def laid_out(pool: Pool, **options: Any) -> Federation:
    return lay_out(pool, partition_pool(config(**options), pool), torch.float64, torch.device("cpu"))


@pytest.mark.parametrize("name", NAMES)
def test_a_fraction_of_zero_is_the_partition_without_it(name):
    pool, run = pool_of(), config(name, public_fraction=0)
    split = PARTITIONERS.get(name).make(run.partition.options).split
    before, found = split(pool, numpy_stream(0, "partition")), partition_pool(run, pool)
    assert all(np.array_equal(a, b) for a, b in zip(parts_of(before), parts_of(found), strict=True))
    assert found.public is None and laid_out(pool, name=name).public is None


@pytest.mark.parametrize("name", NAMES)
def test_absent_and_zero_are_the_same_configuration(name):
    absent, zero, some = config(name), config(name, public_fraction=0), config(name, public_fraction=0.1)
    assert "public_fraction" not in absent.to_dict()["partition"] and absent.digest == zero.digest != some.digest
    for run in (zero, some):
        assert RunConfig.from_dict(run.to_dict()) == run


def test_the_digest_of_a_stored_run_has_not_changed():
    assert config().digest == "9e9dd63f4b16a56828e1dbb8e46fac519d05596b2fd0c525728477ea3f440255"


@pytest.mark.parametrize("name", NAMES)
def test_no_client_has_a_public_sample(name):
    pool = pool_of()
    partition = partition_pool(config(name, public_fraction=0.2, holdout_clients=0.25, val_fraction=0.1), pool)
    assert len(partition.public) == len(np.unique(partition.public)) == 80
    assert (np.diff(partition.public) > 0).all()
    owned = np.concatenate([*parts_of(partition), *parts_of(partition.unseen)])
    assert owned.size and not np.intersect1d(partition.public, owned).size


def test_indices_are_those_of_the_whole_pool():
    """The feature of a sample is its index."""
    pool, options = pool_of(), {"name": "natural", "public_fraction": 0.2}
    partition, data = partition_pool(config(**options), pool), laid_out(pool, **options)
    assert data.public.features(torch.arange(80))[:, 0].tolist() == partition.public.tolist()
    for i in range(4):
        x, y = data.train.of_client(i)
        assert x[:, 0].tolist() == partition.train[i].tolist() and (x[:, 0] % 10).tolist() == y.tolist()
        assert (x[:, 0] % 4 == i).all()  # the client of each sample is still its own
    assert data.fingerprint == pool.fingerprint


def test_the_draw_depends_on_the_seed_alone():
    pool = pool_of()
    settings = [("iid", 0), ("dirichlet", 0), ("iid", 1)]
    drawn = [partition_pool(config(name, seed, public_fraction=0.2), pool).public for name, seed in settings]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])
    relabeled = replace(pool, y=pool.y[::-1].copy(), client=pool.client[::-1].copy())
    assert np.array_equal(drawn[0], partition_pool(config(public_fraction=0.2), relabeled).public)


def test_test_samples_that_come_with_the_data_are_not_taken():
    pool = pool_of(split=(np.arange(400) % 4 == 0).astype(np.int64), client=np.arange(400) // 100)
    partition = partition_pool(config("natural", public_fraction=0.5), pool)
    assert len(partition.public) == 150 and (pool.split[partition.public] == 0).all()
    assert sum(map(len, partition.test)) == 100


def test_public_samples_are_stated_and_shared_with_unseen_clients():
    data = laid_out(pool_of(), public_fraction=0.2, holdout_clients=0.25)
    assert "80 of 400 samples are public: they have no labels and belong to no client" in data.summary.notes
    assert data.unseen.public is data.public and data.public.num_samples == 80
    assert not any(name in ("y", "labels") for name in vars(data.public))


def test_public_samples_are_not_shifted():
    pool = pool_of()
    data = laid_out(pool, name="feature_shift", num_groups=4, strength=1.0, public_fraction=0.2)
    assert np.isin(data.public.features(torch.arange(80))[:, 0].numpy(), pool.x).all()
    assert not np.isin(data.train.of_client(3)[0].numpy(), pool.x).any()


def test_a_fraction_of_less_than_a_sample_takes_none():
    assert partition_pool(config(public_fraction=0.001), pool_of()).public is None


@pytest.mark.parametrize(
    ("fraction", "pool", "message"),
    [
        (0.999, pool_of(), r"public_fraction=0\.999 leaves the clients none of 400 samples; lower it"),
        (0.5, pool_of(client=np.arange(400) // 399), r"public_fraction=0\.5 takes all samples of client 1; lower it"),
        (0.99, pool_of(client=None), r"available samples; lower num_clients"),
    ],
)
def test_a_fraction_that_leaves_too_little_is_refused(fraction, pool, message):
    with pytest.raises(ImpossiblePartition, match=message):
        partition_pool(config(public_fraction=fraction), pool)


def test_labels_of_public_samples_change_no_number():
    run = config(public_fraction=0.2, algorithm="fedmd")
    pool = load_pool(run, Path())
    partition = partition_pool(run, pool)
    found = []
    for shift in (0, 1):
        y = pool.y.copy()
        y[partition.public] = (y[partition.public] + shift) % 10
        changed = replace(pool, y=y)
        data = lay_out(changed, partition_pool(run, changed), torch.float64, torch.device("cpu"))
        found.append([{n: a.tobytes() for n, a in r.arrays.items()} for r in Simulation(run, data=data).rounds()])
    assert found[0] == found[1]
