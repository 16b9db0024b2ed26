"""Sign flip: malicious clients send their update backwards.

In the form of Li, Xu, Chen, Giannakis, Ling. RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed
Learning from Heterogeneous Datasets. AAAI 2019. https://arxiv.org/abs/1811.03761

    Delta_i <- -scale Delta_i
"""

from dataclasses import dataclass

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.attacks import Attack, AttackOptions, Exchange
from engine.core.registry import ATTACKS


class SignFlipOptions(AttackOptions):
    scale: float = Field(
        1.0, ge=-1, le=1e6, description="Factor on the flipped update; larger = stronger, -1 sends it as it is."
    )


@ATTACKS.register("sign_flip", title="Sign flip", paper="Li et al., AAAI 2019")
@dataclass(frozen=True)
class SignFlip(Attack):
    options: SignFlipOptions

    def corrupt(self, exchange: Exchange) -> Float[Tensor, "m P"]:
        return -self.options.scale * exchange.own
