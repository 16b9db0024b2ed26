"""The memory of data is estimated in advance, and the estimate is sufficient."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import DataUnavailable
from engine.datasets.official import OfficialOptions, official_bytes
from engine.federation.clients import load_pool, partition_pool, pool_bytes, split_bytes
from engine.partitioners import summarize

NOWHERE = Path("nowhere")
GENERATED = {"num_clients": 200, "samples_per_client": 50, "dim": 50}


def a_run(partition: Any = "natural", **dataset: Any) -> RunConfig:
    raw = {"dataset": dataset, "partition": partition, "model": "mlr", "algorithms": ["fedavg"]}
    return parse_experiment(raw).runs()[0]


def peak(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    made = make()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del made
    return found


@pytest.mark.parametrize(
    "dataset",
    [
        {"name": "synthetic"},
        {"name": "synthetic", "labels": "argmax"},
        {"name": "contexts"},
        {"name": "contexts", "shift": "both"},
        {"name": "contexts", "shift": "rotation", "num_contexts": 2},
    ],
    ids=str,
)
def test_generated_data_stay_within_the_estimate(dataset: dict[str, Any]) -> None:
    run = a_run(**dataset | GENERATED)
    needed = peak(lambda: load_pool(run, NOWHERE))
    assert needed <= pool_bytes(run, NOWHERE) <= 2 * needed


@pytest.mark.parametrize(
    "partition",
    ["natural", {"name": "iid", "num_clients": 2000}, {"name": "iid", "num_clients": 1000, "public_fraction": 0.1}],
    ids=str,
)
@pytest.mark.slow
def test_a_partition_stays_within_the_estimate(partition: Any) -> None:
    run = a_run(partition, name="contexts", num_clients=2000, samples_per_client=4, dim=2, num_classes=30)
    pool = load_pool(run, NOWHERE)
    needed = peak(lambda: (split := partition_pool(run, pool), summarize(pool, split)))
    assert needed <= split_bytes(run, pool) <= 4 * needed


def test_an_official_set_counts_both_parts_and_their_union() -> None:
    assert official_bytes(1000, OfficialOptions()) == 2000
    assert official_bytes(1000, OfficialOptions(standardize=True)) == 6000


def test_running_out_of_memory_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError("Unable to allocate 1.46 TiB")

    monkeypatch.setattr("engine.datasets.synthetic.Synthetic.load", refuse)
    with pytest.raises(DataUnavailable, match="out of memory for synthetic; use fewer clients"):
        load_pool(a_run(name="synthetic"), NOWHERE)
