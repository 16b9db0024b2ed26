"""Natural: the clients that come with the data (subjects, domains, a client column, generated clients)."""

from dataclasses import dataclass

import numpy as np

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Partition, SplitOptions, split_clients


class NaturalOptions(SplitOptions):
    def in_words(self) -> str:
        return "natural clients"


@PARTITIONERS.register(
    "natural",
    title="Natural clients",
    paper='GPFL (Zhang et al., ICCV 2023), the "real world" and "feature shift" settings',
)
@dataclass(frozen=True)
class Natural:
    options: NaturalOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        if pool.client is None:
            raise ImpossiblePartition(
                "partition natural requires a data set with its own clients, unlike this; use iid, dirichlet or "
                "classes_per_client, or give a custom data set a client column"
            )
        order = np.argsort(pool.client, kind="stable")
        sizes = np.bincount(pool.client)
        assigned = np.split(order, np.cumsum(sizes)[:-1])
        return split_clients(assigned, pool, self.options, rng, contexts=pool.contexts)
