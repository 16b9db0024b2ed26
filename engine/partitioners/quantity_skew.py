"""Quantity skew: clients draw from the same distribution, but some have much more data than others.

The setting is that of Li, Diao, Chen, He. Federated Learning on Non-IID Data Silos: An Experimental Study. ICDE 2022.
https://arxiv.org/abs/2102.02079. They draw the clients' shares from Dir(beta); the two laws here are ours. Client n
gets a share proportional to

    lognormal   exp(strength z_n), z_n ~ N(0, 1)
    power       rank_n^-strength, ranks 1..N in random order

of the samples left after every client has ``min_samples``. strength 0 gives equal sizes, up to one sample. Test samples
that come with the data are shared out in the same proportions.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Partition, PartitionOptions, check_enough, parts_of, split_clients


class QuantitySkewOptions(PartitionOptions):
    law: Literal["lognormal", "power"] = Field("lognormal", title="Law", description="Distribution of the sizes.")
    strength: float = Field(
        1.0,
        ge=0,
        le=10,
        title="Strength",
        description="Standard deviation of the log sizes, or exponent of the power law; 0: equal.",
    )


@PARTITIONERS.register(
    "quantity_skew",
    title="Quantity skew",
    paper="Setting: Li et al. Federated Learning on Non-IID Data Silos. ICDE 2022. https://arxiv.org/abs/2102.02079. "
    "They draw the sizes from a Dirichlet distribution; the two laws are ours",
)
@dataclass(frozen=True)
class QuantitySkew:
    options: QuantitySkewOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        o = self.options
        check_enough(pool, o)
        weights = self._weights(rng)
        parts = zip(parts_of(pool, np.arange(pool.y.size)), (o.min_samples, 0), strict=False)
        dealt = [np.split(rng.permutation(part), _ends(part.size, weights, least)[:-1]) for part, least in parts]
        return split_clients([np.concatenate(pieces) for pieces in zip(*dealt, strict=True)], pool, o, rng)

    def _weights(self, rng: np.random.Generator) -> np.ndarray:
        if self.options.law == "lognormal":
            return np.exp(self.options.strength * rng.standard_normal(self.options.num_clients))
        ranks = rng.permutation(self.options.num_clients) + 1.0
        return ranks**-self.options.strength


def _ends(total: int, weights: np.ndarray, least: int) -> np.ndarray:
    """Where the samples of each client end, if each gets ``least`` and its share of the rest."""
    spare, place = total - len(weights) * least, np.arange(1, len(weights) + 1)
    if (weights == weights[0]).all():
        return spare * place // len(weights) + least * place  # exactly, unlike a sum of rounded shares
    ends = np.floor(np.cumsum(weights / weights.sum()) * spare).astype(np.int64)
    ends[-1] = spare  # the cumulative sum may end below 1
    return ends + least * place
