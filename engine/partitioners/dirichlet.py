"""Dirichlet: each class is divided among the clients in proportions drawn from Dir(alpha).

Yurochkin et al. Bayesian Nonparametric Federated Learning of Neural Networks. ICML 2019.
https://arxiv.org/abs/1905.12022: for each class c, p_c ~ Dir(alpha 1_N), client n gets the share p_c,n of the samples
of c. Small alpha: few classes per client, unequal sizes. Large: IID.

Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification. 2019.
https://arxiv.org/abs/1909.06335 draw the class mix of each client instead, as partition ``resampled`` does.
"""

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import (
    Partition,
    PartitionOptions,
    check_enough,
    share_out,
    shuffled_classes,
    smallest_client,
    split_clients,
)

MAX_DRAWS = 100


class DirichletOptions(PartitionOptions):
    alpha: float = Field(
        0.5,
        gt=0,
        le=1e6,
        title="α",
        description="Concentration; the smaller it is, the more clients differ.",
    )

    def in_words(self) -> str:
        return f"Dirichlet α = {self.alpha:g}"


@PARTITIONERS.register(
    "dirichlet",
    title="Dirichlet",
    paper="Yurochkin et al. Bayesian Nonparametric Federated Learning of Neural Networks. ICML 2019. "
    "https://arxiv.org/abs/1905.12022. See also Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data "
    "Distribution for Federated Visual Classification. 2019. https://arxiv.org/abs/1909.06335, where each client draws "
    "a class mix",
)
@dataclass(frozen=True)
class Dirichlet:
    options: DirichletOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        """Repeats the draw while a client has too few samples, up to MAX_DRAWS times."""
        o = self.options
        check_enough(pool, o)
        for _ in range(MAX_DRAWS):
            shares = rng.dirichlet(np.full(o.num_clients, o.alpha), size=pool.num_classes)  # [C, N]
            assigned = share_out(shuffled_classes(pool, rng), shares)
            client, size = smallest_client(assigned, pool)
            if size >= o.min_samples:
                return split_clients(assigned, pool, o, rng)
        raise ImpossiblePartition(
            f"alpha={o.alpha} left a client with fewer than min_samples={o.min_samples} training samples in each of "
            f"{MAX_DRAWS} draws (in the last, client {client} had {size} of {pool.y.size}); raise alpha, or lower "
            f"num_clients={o.num_clients} or min_samples"
        )
