"""The median of the updates, number by number.

Yin, Chen, Ramchandran, Bartlett. Byzantine-Robust Distributed Learning: Toward Optimal Statistical Rates. ICML 2018.
https://arxiv.org/abs/1803.01498, Option I.

    Delta[p] <- median_i Delta_i[p]                       of an even number, the mean of the middle two

Pitfalls: ``torch.median`` of an even number is the lower of the middle two.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from engine.aggregators import Aggregator, Combined, use_of_rows
from engine.core.registry import AGGREGATORS


@AGGREGATORS.register("median", title="Median", paper="Yin et al., ICML 2018")
@dataclass(frozen=True)
class Median(Aggregator):
    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        values, rows = delta.sort(dim=0, stable=True)
        middle = [(len(delta) - 1) // 2, len(delta) // 2]
        fell_back = len(delta) < self.needs(num_malicious)
        return Combined(use_of_rows(rows[middle], weights), values[middle].mean(0), fell_back)

    def needs(self, num_malicious: int) -> int:
        return 3
