"""The mean of the updates, with the method's weights: the rule of McMahan et al., AISTATS 2017."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from engine.aggregators import Aggregator, Combined
from engine.core.registry import AGGREGATORS


@AGGREGATORS.register("mean", title="Mean", paper="McMahan et al., AISTATS 2017")
@dataclass(frozen=True)
class Mean(Aggregator):
    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        return Combined(weights)
