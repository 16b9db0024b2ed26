"""Classes per client: each client has samples of a fixed number of classes ("pathological" heterogeneity).

McMahan et al. Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS 2017.
https://arxiv.org/abs/1602.05629. Setting of CGPFL (Tang et al.), PLGU (Qu et al.) and one-stage FedProx (Yu et al.).

Clients with the same classes form a true context. Assigned cyclically (client i has i, i+1, ... mod C) there are C
contexts; drawn at random, few clients share one. The data of different clients are disjoint, so requests beyond the
samples of a class are scaled down proportionally.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Partition, PartitionOptions, check_enough, shuffled_classes, split_clients

MAX_SIZE = 10**9  # samples per client


class ClassesPerClientOptions(PartitionOptions):
    advanced: ClassVar[tuple[str, ...]] = (*PartitionOptions.advanced, "sizes")

    classes_per_client: int = Field(
        3, ge=1, le=1_000_000, title="Classes per client", description="Number of classes per client."
    )
    assignment: Literal["random", "cyclic"] = Field(
        "random",
        title="Assignment",
        description="random: drawn per client, all classes equally often; cyclic: client i has i, i+1, ... mod C.",
    )
    sizes: Literal["equal"] | tuple[int, int] = Field(
        "equal",
        title="Sizes",
        description="Samples per client: equal (as many as the pool allows), or [lo, hi], drawn uniformly.",
    )

    @model_validator(mode="after")
    def _sizes_hold_every_class(self) -> Self:
        if self.sizes != "equal" and not self.classes_per_client <= self.sizes[0] <= self.sizes[1] <= MAX_SIZE:
            raise ValueError(
                f"sizes={list(self.sizes)} must be 'equal', or [lo, hi] with classes_per_client="
                f"{self.classes_per_client} <= lo <= hi <= {MAX_SIZE}"
            )
        return self

    def in_words(self) -> str:
        return f"{self.classes_per_client} {'class' if self.classes_per_client == 1 else 'classes'} each"


@PARTITIONERS.register(
    "classes_per_client",
    title="Classes per client",
    paper="McMahan et al., AISTATS 2017; CGPFL (Tang et al., 2022); PLGU (Qu et al., 2023)",
)
@dataclass(frozen=True)
class ClassesPerClient:
    options: ClassesPerClientOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        o = self.options
        if o.classes_per_client > pool.num_classes:
            raise ImpossiblePartition(
                f"classes_per_client={o.classes_per_client} exceeds the {pool.num_classes} classes of the data "
                f"set; lower classes_per_client to {pool.num_classes} or less"
            )
        check_enough(pool, o)
        holds = class_sets(o, pool.num_classes, rng)
        requested = requested_counts(o, holds, pool, rng)
        given = fit(requested, np.bincount(pool.y, minlength=pool.num_classes))
        assigned = deal(given, shuffled_classes(pool, rng))
        return split_clients(assigned, pool, o, rng, contexts=self._contexts(holds), notes=_notes(requested, given))

    def _contexts(self, holds: np.ndarray) -> np.ndarray | None:
        contexts = same_rows(holds)
        are_meant = self.options.assignment == "cyclic" or contexts.max() + 1 < len(contexts)
        return contexts if are_meant else None


def class_sets(options: ClassesPerClientOptions, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    """[N, C] bool: the classes of each client."""
    holds = np.zeros((options.num_clients, num_classes), dtype=bool)
    held = np.zeros(num_classes, np.int64)  # by how many clients so far
    for client, row in enumerate(holds):
        if options.assignment == "cyclic":
            chosen = (client + np.arange(options.classes_per_client)) % num_classes
        else:  # the classes used least so far, in random order, so that all are used equally
            order = rng.permutation(num_classes)
            chosen = order[np.argsort(held[order], kind="stable")][: options.classes_per_client]
        row[chosen] = True
        held[chosen] += 1
    return holds


def requested_counts(
    options: ClassesPerClientOptions, holds: np.ndarray, pool: Pool, rng: np.random.Generator
) -> np.ndarray:
    """[N, C] requested samples: the size of a client, divided evenly among its classes."""
    if options.sizes == "equal":
        available = np.bincount(pool.y, minlength=pool.num_classes)
        holders = holds.sum(axis=0)
        return holds * np.max([1, np.min(available[holders > 0] // holders[holders > 0])])
    lo, hi = options.sizes
    sizes = rng.integers(lo, hi, size=options.num_clients, endpoint=True)
    share, rest = np.divmod(sizes, options.classes_per_client)
    is_first = (np.cumsum(holds, axis=1) <= rest[:, None]) & holds  # the first classes get the remainder
    return holds * share[:, None] + is_first


def fit(requested: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Scales down requests, [N, C], beyond the available samples, [C]; each client keeps at least one per class."""
    holders, total = (requested > 0).sum(axis=0), requested.sum(axis=0)
    if (holders > available).any():
        c = int(np.argmax(holders - available))
        raise ImpossiblePartition(
            f"class {c} has {available[c]} samples for the {holders[c]} clients that have it; "
            "lower num_clients or classes_per_client"
        )
    spare = np.maximum(total - holders, 1)
    scaled = np.where(requested > 0, 1 + (requested - 1) * (available - holders) // spare, 0)
    return np.where(total > available, scaled, requested)


def deal(given: np.ndarray, by_class: list[np.ndarray]) -> list[np.ndarray]:
    """Distributes the samples of each class in the order of the clients: indices of each client."""
    ends = np.cumsum(given, axis=0)
    return [
        np.concatenate([samples[end - count : end] for samples, end, count in zip(by_class, *row, strict=True)])
        for row in zip(ends, given, strict=True)
    ]


def same_rows(holds: np.ndarray) -> np.ndarray:
    """[N] an index for each distinct row, in order of first appearance."""
    _, first, inverse = np.unique(holds, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]


def _notes(requested: np.ndarray, given: np.ndarray) -> tuple[str, ...]:
    if given.sum() == requested.sum():
        return ()
    return (
        f"{requested.sum():,} samples were requested, more than the classes have, so sizes are scaled down to "
        f"{given.sum():,} in total, {given.sum(axis=1).min():,} to {given.sum(axis=1).max():,} per client",
    )
