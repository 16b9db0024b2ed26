"""Partitioners: split a pool of samples among clients. One file each, registered in ``PARTITIONERS``.

A partitioner is a frozen dataclass with ``options`` and ``split(pool, rng) -> Partition``. It decides which samples a
client owns; ``split_clients`` splits them into train, validation and test. All of them guarantee: every client has
``min_samples`` training samples, the same generator gives the same partition, and a sample is used at most once, unless
the class says ``repeats_samples``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from engine.core.errors import ImpossiblePartition
from engine.core.registry import Options
from engine.core.results import PartitionSummary, UnseenSummary
from engine.datasets import Pool
from engine.partitioners.shifts import Shift


class SplitOptions(Options):
    """Options of all partitioners: the split within each client."""

    advanced: ClassVar[tuple[str, ...]] = (
        "test_fraction",
        "val_fraction",
        "min_samples",
        "holdout_clients",
        "public_fraction",
    )

    later: ClassVar[dict[str, Any]] = {"public_fraction": 0.0}  # options added later, with their defaults

    test_fraction: float = Field(
        0.25, ge=0, lt=1, title="Test share", description="Share of each client's samples used for testing."
    )
    val_fraction: float = Field(
        0.0,
        ge=0,
        lt=1,
        title="Validation share",
        description="Share of each client's samples used to choose the best round and settings; of its training "
        "samples, if the data come with test samples.",
    )
    min_samples: int = Field(
        2, ge=1, le=1_000_000, title="Minimum samples", description="Minimum number of training samples per client."
    )
    holdout_clients: float = Field(
        0.0,
        ge=0,
        lt=1,
        title="Unseen clients",
        description="Share of clients that never train; they get a model after the last round.",
    )
    public_fraction: float = Field(
        0.0,
        ge=0,
        lt=1,
        title="Public share",
        description="Share of the samples set aside as public, without labels. Methods that exchange "
        "predictions need some.",
    )

    def in_words(self) -> str:
        """The split in a heading, such as ``3 classes each``; empty: the partitioner's name."""
        return ""

    @model_serializer(mode="wrap")
    def _without_defaults_of_later_versions(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Absent means the default, as in runs stored before there was such an option; so their digests stay."""
        return {n: value for n, value in serialize(self).items() if n not in self.later or value != self.later[n]}

    @model_validator(mode="after")
    def _leaves_training_samples(self) -> Self:
        if self.test_fraction + self.val_fraction >= 1:
            raise ValueError(
                f"test_fraction={self.test_fraction} and val_fraction={self.val_fraction} leave no samples "
                "for training; their sum must be below 1"
            )
        return self


class PartitionOptions(SplitOptions):
    """Options of partitioners with a configurable number of clients."""

    num_clients: int = Field(20, ge=1, le=1_000_000, title="N", description="Number of clients.")


@dataclass(frozen=True, eq=False)
class Owned(Sequence[np.ndarray]):
    """An array of indices into the pool for each client, stored as one: a million clients are not a million objects."""

    indices: np.ndarray  # [M] sorted by client
    offsets: np.ndarray  # [N + 1] client i has the indices from offsets[i] to offsets[i + 1]

    @classmethod
    def of(cls, parts: Sequence[np.ndarray]) -> "Owned":
        if isinstance(parts, Owned):
            return parts
        offsets = np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.int64)
        return cls(np.concatenate(parts) if parts else np.zeros(0, np.int64), offsets)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: Any) -> Any:
        if isinstance(client, slice):
            return [self[i] for i in range(*client.indices(len(self)))]
        i = range(len(self))[client]
        return self.indices[self.offsets[i] : self.offsets[i + 1]]


@dataclass(frozen=True, eq=False)
class Partition:
    """Each client's training, validation and test samples: ascending indices into the pool, one array per client."""

    train: Sequence[np.ndarray]
    val: Sequence[np.ndarray]
    test: Sequence[np.ndarray]
    contexts: np.ndarray | None = None  # [N] true context, if known
    notes: tuple[str, ...] = ()  # differences from the request, for display
    shifts: tuple[Shift, ...] | None = None  # transformation of each client's samples
    clients: np.ndarray | None = None  # [N] original indices, if some clients were held out
    unseen: "Partition | None" = None  # the held-out clients
    public: np.ndarray | None = None  # samples without labels that belong to no client

    def of_clients(self, chosen: np.ndarray) -> "Partition":
        """The partition of some clients, ascending, renumbered 0, 1, ..."""
        train, val, test = (tuple(parts[i] for i in chosen) for parts in (self.train, self.val, self.test))
        contexts = None if self.contexts is None else self.contexts[chosen]
        shifts = None if self.shifts is None else tuple(self.shifts[i] for i in chosen)
        return Partition(train, val, test, contexts, self.notes, shifts, chosen)


def hold_out(partition: Partition, share: float, rng: np.random.Generator) -> Partition:
    """Moves round(share N) clients out of training to ``unseen``. Raises ImpossiblePartition."""
    N = len(partition.train)
    count = round(share * N)
    if count == N:
        raise ImpossiblePartition(f"holdout_clients={share} leaves none of {N} clients to train; lower it")
    if count == 0:
        none = (f"holdout_clients={share} of {N} clients is below one, so none is held out",) if share else ()
        return replace(partition, notes=partition.notes + none)
    is_unseen = np.zeros(N, dtype=bool)
    is_unseen[rng.choice(N, count, replace=False)] = True
    unseen = partition.of_clients(np.flatnonzero(is_unseen))
    return replace(partition.of_clients(np.flatnonzero(~is_unseen)), unseen=unseen)


def split_clients(
    assigned: Sequence[np.ndarray],
    pool: Pool,
    options: SplitOptions,
    rng: np.random.Generator,
    *,
    contexts: np.ndarray | None = None,
    notes: tuple[str, ...] = (),
) -> Partition:
    """Splits each client's samples into train, validation and test. A split that comes with the data is kept."""
    if pool.split is not None:
        notes += ("the data set comes with its own test samples; test_fraction is not used",)
    notes += overlap_notes(pool, options)
    parts = [_split_one(client, owned, pool, options, rng) for client, owned in enumerate(assigned)]
    train, val, test = zip(*parts, strict=True)
    return Partition(train, val, test, contexts, notes + _too_small(train, val, test, pool, options))


def overlap_notes(pool: Pool, options: SplitOptions) -> tuple[str, ...]:
    """A note if validation or test samples, drawn at random, share parts with training samples."""
    shares = {"validation": options.val_fraction, "test": 0.0 if pool.split is not None else options.test_fraction}
    drawn = " and ".join(name for name, share in shares.items() if share > 0)
    if not pool.overlap or not drawn:
        return ()
    return (
        f"{pool.overlap}, and {drawn} samples are drawn at random, so they share parts with training samples: "
        "accuracies on them are likely higher than on new data",
    )


def _too_small(
    train: Sequence[np.ndarray],
    val: Sequence[np.ndarray],
    test: Sequence[np.ndarray],
    pool: Pool,
    options: SplitOptions,
) -> tuple[str, ...]:
    """Notes on clients without test or validation samples where some are expected."""
    notes = []
    for name, parts in (("test_fraction", test), ("val_fraction", val)):
        share = getattr(options, name)
        without = sum(part.size == 0 for part in parts)
        if without and parts is test and pool.split is not None:
            notes.append(f"{without} of {len(train)} clients have no test samples")
        elif without and share > 0:
            notes.append(
                f"{name}={share:g}: {without} of {len(train)} clients have too few samples and get "
                f"{'no test samples' if parts is test else 'no validation samples'}"
            )
    return tuple(notes)


def _split_one(
    client: int, owned: np.ndarray, pool: Pool, options: SplitOptions, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    owned = rng.permutation(np.asarray(owned, dtype=np.int64))
    if pool.split is None:
        num_test = round(options.test_fraction * owned.size)
        num_val = round(options.val_fraction * owned.size)
        # Tiny clients first get min_samples for training, then validation and test samples.
        num_val = min(num_val, max(owned.size - options.min_samples, 0))
        num_test = min(num_test, max(owned.size - options.min_samples - num_val, 0))
        test, rest = owned[:num_test], owned[num_test:]
    else:
        rest, test = parts_of(pool, owned)
        num_val = min(round(options.val_fraction * rest.size), max(rest.size - options.min_samples, 0))
    val, train = rest[:num_val], rest[num_val:]
    if train.size < options.min_samples:
        raise ImpossiblePartition(
            f"client {client} keeps {train.size} of {owned.size} samples for training, fewer than "
            f"min_samples={options.min_samples}; lower num_clients or min_samples, or let the clients differ less"
        )
    return np.sort(train), np.sort(val), np.sort(test)


def check_enough(pool: Pool, options: PartitionOptions) -> None:
    """Checks that the pool has ``min_samples`` for the training of each client. Raises ImpossiblePartition."""
    available = parts_of(pool, np.arange(pool.y.size))[0].size
    if options.num_clients * options.min_samples > available:
        raise ImpossiblePartition(
            f"num_clients={options.num_clients} with min_samples={options.min_samples} each exceeds the "
            f"{available} available {'samples' if pool.split is None else 'training samples'}; lower num_clients to "
            f"{available // options.min_samples} or less"
        )


def parts_of(pool: Pool, owned: np.ndarray) -> tuple[np.ndarray, ...]:
    """The training samples and the test samples, where the data come with such a split; otherwise all in one part."""
    return (owned,) if pool.split is None else tuple(owned[pool.split[owned] == part] for part in (0, 1))


def share_evenly(pool: Pool, owned: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Splits samples at random and evenly among clients; so are the test samples, if the data come with such."""
    dealt = [np.array_split(rng.permutation(part), num_clients) for part in parts_of(pool, owned)]
    return [np.concatenate(pieces) for pieces in zip(*dealt, strict=True)]


def shuffled_classes(pool: Pool, rng: np.random.Generator) -> list[np.ndarray]:
    """The indices of each class, in random order."""
    return [rng.permutation(np.flatnonzero(pool.y == c)) for c in range(pool.num_classes)]


def share_out(by_class: Sequence[np.ndarray], shares: np.ndarray) -> list[np.ndarray]:
    """Splits the samples of each class by ``shares`` [C, owners]; returns indices by owner. The rest is unused."""
    ends = np.rint(np.cumsum(shares, axis=1) * [[samples.size] for samples in by_class]).astype(np.int64)
    cut_up = [np.split(samples, row)[:-1] for samples, row in zip(by_class, ends, strict=True)]
    return [np.concatenate(parts) for parts in zip(*cut_up, strict=True)]


def smallest_client(assigned: Sequence[np.ndarray], pool: Pool) -> tuple[int, int]:
    """The client with the fewest training samples, and their number."""
    trainable = [parts_of(pool, owned)[0].size for owned in assigned]
    client = int(np.argmin(trainable))
    return client, trainable[client]


def summarize(pool: Pool, partition: Partition) -> PartitionSummary:
    """The sizes and class counts of all clients, as stored and exported."""
    unseen = None
    if partition.unseen is not None and partition.unseen.clients is not None:
        unseen = UnseenSummary(clients=tuple(partition.unseen.clients.tolist()), **_counts(pool, partition.unseen))
    return PartitionSummary(
        **_counts(pool, partition), class_names=pool.class_names, notes=pool.notes + partition.notes, unseen=unseen
    )


def _counts(pool: Pool, partition: Partition) -> dict[str, Any]:
    N, C = len(partition.train), pool.num_classes
    parts = {name: Owned.of(getattr(partition, name)) for name in ("train", "val", "test")}
    counts = np.zeros(N * C, np.int64)
    for owned in parts.values():
        owner = np.repeat(np.arange(N), owned.sizes)
        counts += np.bincount(owner * C + pool.y[owned.indices], minlength=N * C)
    return {
        **{f"{name}_sizes": tuple(owned.sizes.tolist()) for name, owned in parts.items()},
        "class_counts": tuple(map(tuple, counts.reshape(N, C).tolist())),
        "contexts": None if partition.contexts is None else tuple(partition.contexts.tolist()),
    }
