"""Multi-Krum: the mean of the updates that are nearest to the others.

Blanchard, El Mhamdi, Guerraoui, Stainer. Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent.
NeurIPS 2017. https://arxiv.org/abs/1703.02757, section 5.

    score_i <- sum of ||Delta_i - Delta_j||^2 over the A - f - 2 others nearest to i
    Delta <- mean of the ``keep`` updates with the least scores

It needs A >= 2 f + 3 uploads, and more than ``keep``; a round with fewer takes the mean.

Pitfalls: epfml/byzantine-robust-noniid-optimizer squares the distances twice and returns the sum of those kept. Many
malicious clients with similar updates are nearest to one another and are kept.
"""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.aggregators import Aggregator, Combined
from engine.aggregators.nearest import NearestOptions, by_score, only
from engine.core.registry import AGGREGATORS, Count


class MultiKrumOptions(NearestOptions):
    keep: Count | Literal["A-f"] = Field(
        "A-f", title="Averaged updates", description="Updates that are averaged; A-f: all but f."
    )


@AGGREGATORS.register("multi_krum", title="Multi-Krum", paper="Blanchard et al., NeurIPS 2017")
@dataclass(frozen=True)
class MultiKrum(Aggregator):
    options: MultiKrumOptions

    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        f, keep = self.options.bound(num_malicious), self.options.keep
        if len(delta) < self.options.needs(num_malicious):
            return Combined(weights, fell_back=True)
        kept = by_score(delta, f)[: len(delta) - f if keep == "A-f" else int(keep)]
        return Combined(only(kept, weights), fell_back=len(delta) < self.needs(num_malicious))

    def needs(self, num_malicious: int) -> int:
        least, keep = self.options.needs(num_malicious), self.options.keep
        return least if keep == "A-f" else max(least, int(keep) + 1)
