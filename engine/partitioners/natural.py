"""Natural: the clients that come with the data (people, domains, a client column, generated clients).

In GPFL and FedBN (Li et al., ICLR 2021, https://arxiv.org/abs/2102.07623) a client is a domain. With
``clients_per_group`` k, the samples of each natural client are split at random and evenly among k clients, which then
share a true context, as in settings with several clients per domain. ``max_groups`` draws some of many natural clients,
as LEAF does.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Partition, SplitOptions, share_evenly, split_clients


class NaturalOptions(SplitOptions):
    advanced: ClassVar[tuple[str, ...]] = (*SplitOptions.advanced, "max_groups")
    later: ClassVar[dict[str, Any]] = {**SplitOptions.later, "clients_per_group": 1, "max_groups": None}

    clients_per_group: int = Field(
        1,
        ge=1,
        le=1_000_000,
        title="Clients per group",
        description="Number of clients that share the samples of a natural client, such as a domain; the natural "
        "clients are then the true contexts.",
    )
    max_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        title="Groups",
        description="Uses only this many natural clients, drawn at random.",
        json_schema_extra={"unset": "all"},
    )

    def in_words(self) -> str:
        if self.clients_per_group == 1:
            return "natural clients"
        return f"{self.clients_per_group} clients per natural group"


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
        o = self.options
        order = np.argsort(pool.client, kind="stable")
        sizes = np.bincount(pool.client)
        groups = np.split(order, np.cumsum(sizes)[:-1])
        chosen = self._chosen(len(groups), rng)
        contexts = None if pool.contexts is None else pool.contexts[chosen]
        assigned = [groups[g] for g in chosen]
        if o.clients_per_group > 1:
            assigned = [part for group in assigned for part in share_evenly(pool, group, o.clients_per_group, rng)]
            contexts = np.repeat(np.arange(len(chosen)) if contexts is None else contexts, o.clients_per_group)
        return split_clients(assigned, pool, o, rng, contexts=contexts)

    def _chosen(self, available: int, rng: np.random.Generator) -> np.ndarray:
        """The natural clients to use, ascending."""
        wanted = self.options.max_groups
        if wanted is None or wanted >= available:
            return np.arange(available)
        return np.sort(rng.choice(available, wanted, replace=False))
