"""The clients' data as tensors: indices into one pool of samples, sorted by client, with offsets, so without padding.

No client has a copy of its samples, and clients may share them, so a million clients need little more memory than the
pool.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.config.schema import RunConfig
from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, PARTITIONERS
from engine.core.results import PartitionSummary
from engine.core.streams import numpy_stream
from engine.datasets import Pool
from engine.datasets.file_state import file_state
from engine.partitioners import Owned, Partition, hold_out, summarize
from engine.partitioners.public import divided
from engine.partitioners.shifts import Shift

Progress = Callable[[str, float], None]
_CLIENT_BYTES, _COUNT_BYTES = 1500, 16  # measured per client: three arrays, sizes and class counts


@dataclass(frozen=True)
class Samples:
    """A pool of samples, which training, validation and test data of all clients refer to."""

    x: Tensor  # [P, ...] as stored (uint8 or floating point)
    y: Tensor  # [P] int64
    source: Pool | None = field(default=None, repr=False, compare=False)  # if runs may share them


@dataclass(frozen=True)
class ClientData:
    """Samples of all clients: client i owns the places ``offsets[i]`` to ``offsets[i + 1]`` of ``rows``."""

    pool: Samples
    rows: Int[Tensor, "M"]  # index into the pool at each place, sorted by client
    offsets: Int[Tensor, "bounds"]
    scale: float
    dtype: torch.dtype
    relabeled: Int[Tensor, "M"] | None = None  # the label at each place, if labels differ from the pool's

    @cached_property
    def sizes(self) -> Int[Tensor, "clients"]:
        return self.offsets.diff()

    @property
    def num_clients(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_samples(self) -> int:
        """Over all clients; samples that clients share count for each."""
        return len(self.rows)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return tuple(self.pool.x.shape[1:])

    def features(self, places: Tensor) -> Tensor:
        """Samples at ``places`` (any shape) as the model sees them: ``[*places, ...]`` floats."""
        return self.pool_features(self.rows[places])

    def pool_features(self, rows: Tensor) -> Tensor:
        """Features of the pool's samples ``rows`` (any shape), like ``features``."""
        taken = self.pool.x.index_select(0, rows.reshape(-1))
        return _as_floats(taken.view(*rows.shape, *self.sample_shape), self.scale, self.dtype)

    def labels(self, places: Tensor) -> Tensor:
        """Labels at ``places`` (any shape)."""
        return self.pool_labels(self.rows[places], places)

    def pool_labels(self, rows: Tensor, places: Tensor) -> Tensor:
        """Labels at ``places``, which are the pool's samples ``rows``: saves looking these up."""
        return self.pool.y[rows] if self.relabeled is None else self.relabeled[places]

    def of_client(self, client: int) -> tuple[Tensor, Tensor]:
        """(features [M_i, ...], labels [M_i]) of one client, as copies."""
        own = slice(int(self.offsets[client]), int(self.offsets[client + 1]))
        return _as_floats(self.pool.x.index_select(0, self.rows[own]), self.scale, self.dtype), self.labels(
            torch.arange(own.start, own.stop, device=self.rows.device)
        )

    def of_everyone(self) -> tuple[Tensor, Tensor]:
        """(features [M, ...], labels [M]) of all clients, as copies: for few samples only."""
        return _as_floats(self.pool.x.index_select(0, self.rows), self.scale, self.dtype), self.all_labels

    def selected(self, places: Int[Tensor, "chosen"], offsets: Int[Tensor, "bounds"]) -> "ClientData":
        """The samples at ``places`` with their labels, of which client i owns ``offsets[i]`` to ``offsets[i + 1]``."""
        relabeled = None if self.relabeled is None else self.relabeled[places]
        return replace(self, rows=self.rows[places], offsets=offsets, relabeled=relabeled)

    @property
    def all_labels(self) -> Int[Tensor, "M"]:
        """The labels of all samples, sorted by client."""
        return self.pool.y[self.rows] if self.relabeled is None else self.relabeled


@dataclass(frozen=True)
class PublicData:
    """Samples without labels that everyone has and no client owns."""

    x: Tensor  # [M, ...] as stored
    scale: float
    dtype: torch.dtype

    @property
    def num_samples(self) -> int:
        return len(self.x)

    @property
    def nbytes(self) -> int:
        return self.x.nbytes

    def features(self, places: Int[Tensor, "B"]) -> Tensor:
        """Samples at ``places`` as the model sees them: [B, ...] floats."""
        return _as_floats(self.x.index_select(0, places), self.scale, self.dtype)


@dataclass(frozen=True)
class Federation:
    """All data of a run, as tensors."""

    train: ClientData
    val: ClientData
    test: ClientData
    common_test: ClientData | None  # the common test set, as one client
    num_classes: int
    input_shape: tuple[int, ...]
    contexts: np.ndarray | None  # [N] true context of each client, if known
    truth: dict[str, np.ndarray] | None
    summary: PartitionSummary
    fingerprint: str
    notes: tuple[str, ...] = field(default=())
    unseen: "Federation | None" = None  # held-out clients, renumbered from 0
    public: PublicData | None = None  # the same for held-out clients
    malicious: np.ndarray | None = None  # [N], where there is an attack

    @property
    def num_clients(self) -> int:
        return self.train.num_clients

    @cached_property
    def class_counts(self) -> Int[Tensor, "N C"]:
        """[N, C] training samples of each client by class."""
        train = self.train
        owner = torch.repeat_interleave(torch.arange(self.num_clients, device=train.rows.device), train.sizes)
        labels = train.all_labels
        shape = (self.num_clients, self.num_classes)
        return torch.bincount(owner * self.num_classes + labels, minlength=shape[0] * shape[1]).view(shape)

    @cached_property
    def input_sums(self) -> Float[Tensor, "N C F"]:
        """[N, C, F] the training samples of each client, flattened and summed by class."""
        train = self.train
        shape = self.num_clients, self.num_classes, math.prod(self.input_shape)
        sums = torch.zeros(shape, dtype=train.dtype, device=train.rows.device)
        for client in range(self.num_clients):
            x, y = train.of_client(client)
            sums[client].index_add_(0, y, x.flatten(1))
        return sums

    @cached_property
    def test_sizes(self) -> np.ndarray:
        return np.array(self.summary.test_sizes)

    @cached_property
    def val_sizes(self) -> np.ndarray:
        return np.array(self.summary.val_sizes)


def load_pool(config: RunConfig, data_dir: Path, progress: Progress | None = None) -> Pool:
    """Loads the pool of a run's data set. Raises DataUnavailable, also if memory runs out."""
    dataset = DATASETS.get(config.dataset.name).make(config.dataset.options)
    try:
        return dataset.load(data_dir, numpy_stream(config.split, "data"), progress)
    except MemoryError as error:
        raise DataUnavailable(
            f"out of memory for {config.dataset.name}; use fewer clients, samples or features, or close other programs"
        ) from error


def data_state(config: RunConfig, data_dir: Path) -> str:
    """Differs after a file of a run's data set was replaced."""
    dataset = DATASETS.get(config.dataset.name).make(config.dataset.options)
    return file_state(getattr(dataset, "files", ()), data_dir)


def pool_bytes(config: RunConfig, data_dir: Path) -> int:
    """Estimate of the peak memory of ``load_pool`` in bytes; 0 if unknown."""
    dataset = DATASETS.get(config.dataset.name).make(config.dataset.options)
    return int(dataset.memory(data_dir)) if hasattr(dataset, "memory") else 0


def split_bytes(config: RunConfig, pool: Pool) -> int:
    """The memory of a partition and its summary, in bytes, and of the copies of samples that public ones need."""
    given = getattr(config.partition.options, "num_clients", None)
    each = getattr(config.partition.options, "clients_per_group", 1)
    N = each * (int(pool.client.max()) + 1) if given is None and pool.client is not None else given or 1
    copied = pool.x.nbytes if getattr(config.partition.options, "public_fraction", 0.0) else 0
    return N * (_CLIENT_BYTES + _COUNT_BYTES * pool.num_classes) + 16 * pool.y.size + copied


def laid_out_bytes(config: RunConfig, pool: Pool) -> int:
    """The peak memory of ``lay_out`` in bytes: the samples as stored, shifted or not, and as floats."""
    is_float = pool.x.dtype.kind == "f"
    converted = pool.x.size * (8 if config.training.tensor_dtype == "float64" else 4) if is_float else 0
    return pool.x.nbytes + converted + split_bytes(config, pool)


def partition_pool(config: RunConfig, pool: Pool) -> Partition:
    """Splits the pool among the clients. Raises ImpossiblePartition."""
    options = config.partition.options
    split = PARTITIONERS.get(config.partition.name).make(options).split
    parts = divided(pool, getattr(options, "public_fraction", 0.0), numpy_stream(config.split, "public"))
    partition = split(parts.private if parts else pool, numpy_stream(config.split, "partition"))
    partition = parts.of_whole_pool(partition) if parts else partition
    if pool.client is not None and "num_clients" in type(options).model_fields:
        partition = replace(partition, notes=(*partition.notes, _unused_clients(config, pool)))
    partition = hold_out(partition, getattr(options, "holdout_clients", 0.0), numpy_stream(config.split, "holdout"))
    return replace(partition, public=parts.public) if parts else partition


def _unused_clients(config: RunConfig, pool: Pool) -> str:
    """A note if the partitioner ignores the natural clients of the data."""
    assert pool.client is not None
    kept = int(pool.client.max()) + 1
    return (
        f"the data come with {kept} client{'' if kept == 1 else 's'}, which partition "
        f"{config.partition.name} redistributes; use partition natural to keep them"
    )


def build(config: RunConfig, data_dir: Path, device: torch.device, progress: Progress | None = None) -> Federation:
    """Loads and partitions a run's data. Raises DataUnavailable, ImpossiblePartition."""
    dtype, samples = getattr(torch, config.training.tensor_dtype), None
    if _is_shared(config):
        pool = _pool_of_process(_PoolKey(config, data_dir, data_state(config, data_dir), progress))
        samples = _shared_samples(pool, dtype, device)
    else:
        pool = load_pool(config, data_dir, progress)
    return lay_out(pool, partition_pool(config, pool), dtype, device, samples)


def lay_out(
    pool: Pool, partition: Partition, dtype: torch.dtype, device: torch.device, samples: Samples | None = None
) -> Federation:
    """Converts a partitioned pool to tensors on ``device``; the clients hold indices into it. Raises DataUnavailable.

    ``samples`` is the pool as tensors, where another run has converted it.
    """
    samples = samples or _samples(pool.x, pool.y, dtype, device)
    common = None
    if pool.common_test is not None:
        x, y = pool.common_test
        common = _in_order(_samples(x, y, dtype, device), [len(y)], pool.scale, dtype)
    public = None
    if partition.public is not None:
        chosen = torch.from_numpy(partition.public).to(device)
        public = PublicData(samples.x.index_select(0, chosen), pool.scale, dtype)
    unseen = None if partition.unseen is None else _federation(pool, samples, partition.unseen, None, public, dtype)
    return replace(_federation(pool, samples, partition, common, public, dtype), unseen=unseen)


def _federation(
    pool: Pool,
    samples: Samples,
    partition: Partition,
    common: ClientData | None,
    public: PublicData | None,
    dtype: torch.dtype,
) -> Federation:
    device = samples.y.device

    def held(parts: Sequence[np.ndarray]) -> ClientData:
        owned = Owned.of(parts)
        if partition.shifts is not None:  # shifted samples are the client's own
            shifted = _shifted(pool, parts, partition.shifts)
            return _in_order(_samples(shifted, pool.y[owned.indices], dtype, device), owned.sizes, pool.scale, dtype)
        rows = torch.from_numpy(owned.indices).to(device)
        return ClientData(samples, rows, torch.from_numpy(owned.offsets).to(device), pool.scale, dtype)

    return Federation(
        held(partition.train),
        held(partition.val),
        held(partition.test),
        common,
        pool.num_classes,
        tuple(pool.x.shape[1:]),
        partition.contexts,
        _truth_of(pool, partition),
        summarize(pool, partition),
        pool.fingerprint,
        (*pool.notes, *partition.notes),
        public=public,
    )


def _as_floats(taken: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """The features of samples, of which ``taken`` is a copy."""
    floats = taken.to(dtype)
    return floats if scale == 1.0 else floats.mul_(scale)


def _shifted(pool: Pool, parts: Sequence[np.ndarray], shifts: tuple[Shift, ...]) -> np.ndarray:
    """The clients' samples, concatenated, each with its client's shift."""
    return np.concatenate([shift(pool.x[rows], rows) for rows, shift in zip(parts, shifts, strict=True)])


def _samples(x: np.ndarray, y: np.ndarray, dtype: torch.dtype, device: torch.device) -> Samples:
    """The arrays as tensors, without a copy where they need no conversion. Raises DataUnavailable."""
    stored = torch.from_numpy(np.require(x, requirements=("C", "W")))
    _check_range(stored, dtype)
    labels = torch.from_numpy(np.require(y, np.int64, ("C", "W")))
    return Samples((stored.to(dtype) if stored.is_floating_point() else stored).to(device), labels.to(device))


def _check_range(stored: Tensor, dtype: torch.dtype) -> None:
    """Rejects doubles that would become infinite as floats."""
    if stored.dtype != torch.float64 or dtype == torch.float64 or not stored.numel():
        return
    largest = torch.finfo(dtype).max
    low, high = stored.aminmax()
    if not max(-float(low), float(high)) > largest:  # also where values are NaN
        return
    places = (stored.abs() > largest).nonzero()
    at = tuple(places[0].tolist())
    raise DataUnavailable(
        f"x[{', '.join(map(str, at))}] is {float(stored[at]):g} ({len(places):,} values of x are beyond "
        f"±{largest:.2g}, the range of single precision); scale the data, or use training.dtype: float64"
    )


def _in_order(samples: Samples, sizes: Sequence[int] | np.ndarray, scale: float, dtype: torch.dtype) -> ClientData:
    """Samples that are sorted by client."""
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    device = samples.y.device
    return ClientData(samples, torch.arange(len(samples.y), device=device), offsets.to(device), scale, dtype)


def _truth_of(pool: Pool, partition: Partition) -> dict[str, np.ndarray] | None:
    """The true parameters of these clients, if each is another of the clients that were generated."""
    if pool.truth is None or pool.client is None:
        return None
    owned = Owned.of(partition.train)
    if not owned.sizes.all():
        return None
    origin_of = pool.client[owned.indices]
    origins = origin_of[owned.offsets[:-1]]
    if (origin_of != np.repeat(origins, owned.sizes)).any() or np.unique(origins).size < origins.size:
        return None
    return pool.truth | {"weights": pool.truth["weights"][origins]}


_shared: WeakValueDictionary[tuple[int, torch.dtype, torch.device], Samples] = WeakValueDictionary()


def _shared_samples(pool: Pool, dtype: torch.dtype, device: torch.device) -> Samples:
    """The pool as tensors: the same for all runs of the process that use it at the same time."""
    key = id(pool), dtype, device
    samples = _shared.get(key)
    if samples is None:  # while they exist, so does the pool, and its id is not used again
        samples = _shared[key] = replace(_samples(pool.x, pool.y, dtype, device), source=pool)
    return samples


@dataclass(frozen=True)
class _PoolKey:
    """The cache key of a pool that does not depend on the seed."""

    config: RunConfig
    data_dir: Path
    state: str  # of its files, before they are read
    progress: Progress | None

    def _cache_identity(self) -> tuple[Any, ...]:
        dataset = self.config.dataset
        return (dataset.name, dataset.options.model_dump_json(), str(self.data_dir), self.state)

    def __hash__(self) -> int:
        return hash(self._cache_identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PoolKey) and self._cache_identity() == other._cache_identity()


def _is_shared(config: RunConfig) -> bool:
    """Whether all seeds read the same pool."""
    return bool(getattr(DATASETS.get(config.dataset.name).make, "is_fixed", False))


@lru_cache(maxsize=2)
def _pool_of_process(key: _PoolKey) -> Pool:
    """Cached, so that a warm worker reads a data set once, and again if its files were replaced."""
    return load_pool(key.config, key.data_dir, key.progress)
