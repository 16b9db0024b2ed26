"""The mean of the updates, each clipped to a norm.

Sun, Kairouz, Suresh, McMahan. Can You Really Backdoor Federated Learning? 2019. https://arxiv.org/abs/1911.07963,
section 3.2.

    Delta <- sum_i p_i Delta_i min(1, c / ||Delta_i||)    c: the median norm of the round, or a number

A zero update stays.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.aggregators import Aggregator, Combined
from engine.core.registry import AGGREGATORS, Options, Positive


class NormClipOptions(Options):
    at: Positive | Literal["median"] = Field(
        "median",
        title="Largest norm (c)",
        description="Largest norm of an update; median: that of the round's updates.",
    )


@AGGREGATORS.register("norm_clip", title="Norm clipping", paper="Sun et al., 2019")
@dataclass(frozen=True)
class NormClip(Aggregator):
    options: NormClipOptions

    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        norms = torch.linalg.vector_norm(delta, dim=1, dtype=torch.float64)
        at = norms.quantile(0.5) if self.options.at == "median" else norms.new_tensor(float(self.options.at))
        factor = (at / norms).clamp(max=1.0).where(norms > 0, 1.0)
        scaled = weights * factor.to(weights.dtype)
        fell_back = len(delta) < self.needs(num_malicious)
        return Combined(scaled / scaled.sum(), scaled.to(delta.dtype) @ delta, fell_back)

    def needs(self, num_malicious: int) -> int:
        return 2 if self.options.at == "median" else 1
