"""The data of the preview: cached pools, and the split that a run would train on."""

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from app.access import permits
from app.data import allowed_paths
from app.data.memory_limit import KeptData
from engine.config.schema import Choice, RunConfig
from engine.core.errors import DataUnavailable, FedscapeError
from engine.core.paths import default_data_dir
from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.federation.clients import (
    Federation,
    data_state,
    laid_out_bytes,
    lay_out,
    load_pool,
    partition_pool,
    pool_bytes,
    split_bytes,
)
from engine.partitioners import summarize
from engine.simulation.simulate import choose_device

KEPT = KeptData()


@dataclass(frozen=True)
class Facts:
    """The facts about the data that the form needs."""

    num_classes: int
    has_clients: bool  # the data defines its clients


def is_present(dataset: Choice) -> bool:
    """Whether the data can be read now, without a download."""
    if allowed_paths.problem(dataset.to_dict()):
        return False
    return bool(DATASETS.get(dataset.name).make(dataset.options).present(default_data_dir()))


def facts_of(run: RunConfig | None) -> Facts | None:
    """The facts of a data set, if it can be read now."""
    if run is None or not is_present(run.dataset):
        return None
    try:
        pool = pool_of(run)
    except FedscapeError:
        return None
    return Facts(pool.num_classes, pool.client is not None)


def columns_of(path: str) -> tuple[str, ...] | None:
    """The columns of a table that pages may read; None for other files."""
    entry, dataset = DATASETS.get("custom"), {"path": path}
    if not path or allowed_paths.problem(dataset):
        return None
    columns: tuple[str, ...] | None = entry.make(entry.options(**dataset)).columns(default_data_dir())
    return columns


def pool_of(run: RunConfig, progress: Progress | None = None) -> Pool:
    """Raises DataUnavailable, including TooLarge."""
    allowed_paths.check(run.dataset.to_dict())
    if (reason := permits.refusal("download")) and not is_present(run.dataset):
        raise DataUnavailable(reason)
    key, data_dir = ("pool", *_data_key(run)), default_data_dir()
    return KEPT.get(key, lambda: pool_bytes(run, data_dir), lambda: load_pool(run, data_dir, progress), _num_bytes)


def split_of(run: RunConfig) -> dict[str, Any]:
    """The ``partition`` that would be stored with this run. Raises DataUnavailable or ImpossiblePartition."""
    key, pool = _data_key(run), pool_of(run)
    return KEPT.get(
        ("split", *key, *_partition_key(run)),
        lambda: split_bytes(run, pool),
        lambda: summarize(pool, partition_pool(run, pool)).to_dict(),
        lambda _: split_bytes(run, pool),
    )


def federation_of(run: RunConfig, progress: Progress | None = None) -> Federation:
    """The data as tensors. Raises DataUnavailable, ImpossiblePartition or Unsupported."""
    device, key = choose_device(run.machine.device), _data_key(run)
    pool = pool_of(run, progress)
    return KEPT.get(
        ("federation", *key, *_partition_key(run), run.training.tensor_dtype, str(device)),
        lambda: _num_bytes(pool) + laid_out_bytes(run, pool),
        lambda: lay_out(pool, partition_pool(run, pool), getattr(torch, run.training.tensor_dtype), device),
        _federation_bytes,
    )


def download(run: RunConfig, progress: Progress) -> None:
    """Fetch a data set that is not on this machine. Raises DataUnavailable."""
    pool_of(run, progress)


def sample_bytes(run: RunConfig) -> int:
    """Memory of one sample."""
    pool = pool_of(run)
    return pool.x.nbytes // max(len(pool.y), 1)


def _data_key(run: RunConfig) -> tuple[Hashable, ...]:
    """Generated data depends on the seed, and files may be replaced."""
    options = run.dataset.options.model_dump(mode="json")
    seed = run.split if "num_clients" in options else 0
    return run.dataset.name, json.dumps(options, sort_keys=True), seed, file_state(run)


def file_state(run: RunConfig) -> tuple[Hashable, ...]:
    """The folder of the data, and what changes if its files are replaced."""
    data_dir = default_data_dir()
    return str(data_dir), data_state(run, data_dir)


def _partition_key(run: RunConfig) -> tuple[Hashable, ...]:
    return json.dumps(run.partition.to_dict(), sort_keys=True), run.split


def _num_bytes(pool: Pool) -> float:
    arrays = [pool.x, pool.y, pool.client, pool.split, *(pool.common_test or ())]
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def _federation_bytes(data: Federation) -> float:
    """The size of the samples, which training and test data may share, and of the clients' indices into them."""
    federations = [data, *([data.unseen] if data.unseen else [])]
    found = [part for f in federations for part in (f.train, f.val, f.test, f.common_test) if part is not None]
    pools = {id(part.pool): part.pool for part in found}.values()
    return sum(p.x.nbytes + p.y.nbytes for p in pools) + sum(part.rows.nbytes for part in found)
