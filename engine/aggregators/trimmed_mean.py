"""The mean of the updates without the lowest and highest ones, number by number.

Yin, Chen, Ramchandran, Bartlett. Byzantine-Robust Distributed Learning: Toward Optimal Statistical Rates. ICML 2018.
https://arxiv.org/abs/1803.01498, Option II.

    Delta[p] <- mean of Delta_i[p] without the floor(trim A) lowest and highest of A

It needs A >= 1 / trim uploads; of fewer, it leaves none out.
"""

from dataclasses import dataclass
from math import ceil, floor

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.aggregators import Aggregator, Combined, use_of_rows
from engine.core.registry import AGGREGATORS, Options


class TrimmedMeanOptions(Options):
    trim: float = Field(
        0.2, ge=0, lt=0.5, description="Share of uploads left out at each end; larger = more robust, 0 is the mean."
    )


@AGGREGATORS.register("trimmed_mean", title="Trimmed mean", paper="Yin et al., ICML 2018")
@dataclass(frozen=True)
class TrimmedMean(Aggregator):
    options: TrimmedMeanOptions

    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        out = floor(self.options.trim * len(delta) + 1e-9)  # 0.29 * 100 is 28.999...
        values, rows = delta.sort(dim=0, stable=True)
        kept = slice(out, len(delta) - out)
        fell_back = len(delta) < self.needs(num_malicious)
        return Combined(use_of_rows(rows[kept], weights), values[kept].mean(0), fell_back)

    def needs(self, num_malicious: int) -> int:
        return ceil((1 - 1e-9) / self.options.trim) if self.options.trim else 1
