"""Public samples: samples without labels that everyone has, taken from the pool before it is split among the clients.

Methods that exchange predictions compare them on such samples. They are drawn uniformly, whatever their labels and
clients, and belong to no client: nobody trains on their labels, or validates or tests on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.core.errors import ImpossiblePartition
from engine.datasets import Pool
from engine.partitioners import Owned, Partition


@dataclass(frozen=True, eq=False)
class Divided:
    """A pool in two: public samples, and a pool of the others."""

    public: np.ndarray  # ascending indices into the whole pool
    kept: np.ndarray  # likewise, of the others
    private: Pool

    def of_whole_pool(self, partition: Partition) -> Partition:
        """A partition of the private samples, with indices into the whole pool."""
        train, val, test = (self._renumbered(parts) for parts in (partition.train, partition.val, partition.test))
        total = len(self.public) + len(self.kept)
        note = f"{len(self.public):,} of {total:,} samples are public: they have no labels and belong to no client"
        return replace(partition, train=train, val=val, test=test, notes=(*partition.notes, note))

    def _renumbered(self, parts: Sequence[np.ndarray]) -> Owned:
        owned = Owned.of(parts)
        return Owned(self.kept[owned.indices], owned.offsets)


def divided(pool: Pool, share: float, rng: np.random.Generator) -> Divided | None:
    """Draws round(share M) of the M samples, of which test samples that come with the data are not taken.

    None if that is no sample. Raises ImpossiblePartition if a client of the data loses all its samples.
    """
    candidates = np.arange(pool.y.size) if pool.split is None else np.flatnonzero(pool.split == 0)
    count = round(share * candidates.size)
    if count == 0:
        return None
    public = np.sort(rng.choice(candidates, count, replace=False))
    is_kept = np.ones(pool.y.size, bool)
    is_kept[public] = False
    kept = np.flatnonzero(is_kept)
    if kept.size == 0:
        raise ImpossiblePartition(f"public_fraction={share} leaves the clients none of {pool.y.size} samples; lower it")
    if pool.client is not None:
        lost = np.setdiff1d(pool.client, pool.client[kept])
        if lost.size:
            raise ImpossiblePartition(f"public_fraction={share} takes all samples of client {lost[0]}; lower it")
    client, split = (None if of is None else of[kept] for of in (pool.client, pool.split))
    return Divided(public, kept, replace(pool, x=pool.x[kept], y=pool.y[kept], client=client, split=split))
