"""Resampled: every client draws its own samples, which others may have too, so there can be any number of clients.

Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification. 2019.
https://arxiv.org/abs/1909.06335, section 3: client n has the class mix q_n ~ Dir(alpha p), with p the class mix of the
pool, and draws its samples by q_n. Without alpha every client has the mix p (IID).

The pool is first split into samples for training, validation and testing, and clients draw from each: no client trains
on a sample that another one is tested on. A client has no sample twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Owned, Partition, PartitionOptions, overlap_notes

MAX_DRAWN = 2**31  # samples of all clients
BLOCK = 50_000  # clients that are drawn together


class ResampledOptions(PartitionOptions):
    samples_per_client: int = Field(
        20,
        ge=1,
        le=1_000_000,
        title="Samples per client",
        description="Samples of a client, including validation and test samples.",
    )
    alpha: float | None = Field(
        None,
        gt=0,
        le=1e6,
        title="α",
        description="Concentration of the class mixes: the smaller, the more clients differ; by default none do.",
        json_schema_extra={"unset": "all alike"},
    )

    @model_validator(mode="after")
    def _leaves_min_samples(self) -> Self:
        if self.samples_per_client - sum(self.held_out()) < self.min_samples:
            raise ValueError(
                f"samples_per_client={self.samples_per_client} leaves fewer than min_samples={self.min_samples} for "
                "training; raise it, or lower test_fraction, val_fraction or min_samples"
            )
        if self.num_clients * self.samples_per_client > MAX_DRAWN:
            raise ValueError(
                f"{self.num_clients:,} clients x {self.samples_per_client:,} samples exceed {MAX_DRAWN:,}; lower one"
            )
        return self

    def held_out(self) -> tuple[int, int]:
        """Validation and test samples of a client."""
        return round(self.val_fraction * self.samples_per_client), round(self.test_fraction * self.samples_per_client)

    def in_words(self) -> str:
        return f"{self.samples_per_client} samples each" + ("" if self.alpha is None else f", α = {self.alpha:g}")


@PARTITIONERS.register(
    "resampled",
    title="Resampled",
    paper="Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated "
    "Visual Classification. 2019. https://arxiv.org/abs/1909.06335",
)
@dataclass(frozen=True)
class Resampled:
    options: ResampledOptions
    repeats_samples: ClassVar[bool] = True

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        o = self.options
        mixes = None
        if o.alpha is not None:
            p = np.bincount(pool.y, minlength=pool.num_classes) / pool.y.size
            mixes = np.zeros((o.num_clients, pool.num_classes))
            mixes[:, p > 0] = rng.dirichlet(o.alpha * p[p > 0], size=o.num_clients)
        num_val, num_test = o.held_out()
        sizes = {"train": o.samples_per_client - num_val - num_test, "val": num_val, "test": num_test}
        parts: dict[str, Owned] = {}
        for (name, size), available in zip(sizes.items(), _parts(pool, o, rng), strict=True):
            by_class = [available]
            if mixes is not None:
                by_class = [available[pool.y[available] == c] for c in range(pool.num_classes)]
            counts = np.full((o.num_clients, 1), size) if mixes is None else rng.multinomial(size, mixes)
            _require_enough(name, counts, by_class, o)
            parts[name] = _drawn(counts, by_class, rng)
        return Partition(parts["train"], parts["val"], parts["test"], notes=overlap_notes(pool, o))


def _parts(pool: Pool, options: ResampledOptions, rng: np.random.Generator) -> list[np.ndarray]:
    """The samples of the pool for training, validation and testing. A split that comes with the data is kept."""
    order = rng.permutation(pool.y.size)
    if pool.split is None:
        num_test = round(options.test_fraction * pool.y.size)
        num_val = round(options.val_fraction * pool.y.size)
        test, rest = order[:num_test], order[num_test:]
    else:
        test, rest = order[pool.split[order] == 1], order[pool.split[order] == 0]
        num_val = round(options.val_fraction * rest.size)
    return [np.sort(part) for part in (rest[num_val:], rest[:num_val], test)]


def _require_enough(name: str, counts: np.ndarray, by_class: Sequence[np.ndarray], options: ResampledOptions) -> None:
    """Raises ImpossiblePartition where a client would need a sample twice."""
    short = np.argwhere(counts > [part.size for part in by_class])
    if len(short):
        client, c = short[0]
        what = f"class {c}" if len(by_class) > 1 else "all classes"
        raise ImpossiblePartition(
            f"client {client} draws {counts[client, c]} {name} samples of {what}, which has {by_class[c].size}; lower "
            f"samples_per_client={options.samples_per_client}" + ("" if options.alpha is None else ", or raise alpha")
        )


def _drawn(counts: np.ndarray, by_class: Sequence[np.ndarray], rng: np.random.Generator) -> Owned:
    """For each client ``counts`` [N, C] distinct samples of each class, uniformly."""
    N, width = len(counts), int(counts[0].sum())
    bounds, ordered = np.cumsum([0, *(part.size for part in by_class)]), np.concatenate(by_class)
    indices = np.zeros((N, width), np.int32)
    for begin in range(0, N if width else 0, BLOCK):
        drawn = _places(counts[begin : begin + BLOCK], bounds, rng)
        indices[begin : begin + BLOCK] = np.sort(ordered[drawn], axis=1)
    return Owned(indices.ravel(), np.arange(N + 1, dtype=np.int64) * width)


def _places(counts: np.ndarray, bounds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[N, width] ascending, ``counts`` of them between two ``bounds``.

    Duplicates are drawn again until there are none, for all clients at once. That is uniform by symmetry, and slow only
    for clients that take most of a class, which are drawn one by one.
    """
    sizes = np.diff(bounds)
    places = np.zeros((len(counts), int(counts[0].sum())), np.int64)
    takes_most = (2 * counts > sizes).any(axis=1)
    for client in np.flatnonzero(takes_most):
        own = zip(bounds[:-1], sizes, counts[client], strict=True)
        places[client] = np.sort(np.concatenate([first + rng.choice(m, n, replace=False) for first, m, n in own]))
    again = np.flatnonzero(~takes_most)
    repeated = np.repeat(np.tile(np.arange(len(sizes)), len(again)), counts[again].ravel())
    classes = repeated.reshape(len(again), places.shape[1])
    missing = np.ones(classes.shape, bool)
    while len(again):
        drawn, c = places[again], classes[missing]
        drawn[missing] = rng.integers(bounds[c], bounds[c + 1])
        drawn.sort(axis=1)  # within the bounds of each class, so that ``classes`` stays right
        places[again] = drawn
        missing = np.pad(drawn[:, 1:] == drawn[:, :-1], ((0, 0), (1, 0)))
        left = missing.any(axis=1)
        again, classes, missing = again[left], classes[left], missing[left]
    return places
