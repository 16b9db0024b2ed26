"""Krum: the one update that is nearest to the others.

Blanchard, El Mhamdi, Guerraoui, Stainer. Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent.
NeurIPS 2017. https://arxiv.org/abs/1703.02757, section 4.

    score_i <- sum of ||Delta_i - Delta_j||^2 over the A - f - 2 others nearest to i
    Delta <- Delta_i of the least score                   ties: the client with the lower number

It needs A >= 2 f + 3 uploads; a round with fewer takes the mean.

Pitfalls: FederatedScope sums distances that are not squared, tensor by tensor; ByzFL takes A - f - 1 neighbors.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from engine.aggregators import Aggregator, Combined
from engine.aggregators.nearest import NearestOptions, by_score, only
from engine.core.registry import AGGREGATORS


@AGGREGATORS.register("krum", title="Krum", paper="Blanchard et al., NeurIPS 2017")
@dataclass(frozen=True)
class Krum(Aggregator):
    options: NearestOptions

    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        if len(delta) < self.needs(num_malicious):
            return Combined(weights, fell_back=True)
        return Combined(only(by_score(delta, self.options.bound(num_malicious))[:1], weights))

    def needs(self, num_malicious: int) -> int:
        return self.options.needs(num_malicious)
