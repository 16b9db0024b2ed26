"""Noise: malicious clients send random numbers of the size of their update.

Attack A2 of Li, Hu, Beirami, Smith. Ditto: Fair and Robust Federated Learning Through Personalization. ICML 2021.
https://arxiv.org/abs/2012.04221

    Delta_i <- N(0, (scale std(Delta_i))^2)               std over the numbers of the client's own Delta
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.attacks import Attack, AttackOptions, Exchange
from engine.core.registry import ATTACKS


class GaussianOptions(AttackOptions):
    scale: float = Field(
        1.0,
        ge=0,
        le=1e6,
        description="Standard deviation, as a multiple of that of the client's own update; 0 sends no change.",
    )


@ATTACKS.register("gaussian", title="Gaussian noise", paper="Li et al., ICML 2021, attack A2")
@dataclass(frozen=True)
class Gaussian(Attack):
    options: GaussianOptions

    def corrupt(self, exchange: Exchange) -> Float[Tensor, "m P"]:
        own = exchange.own
        size = self.options.scale * own.std(dim=1, unbiased=False, keepdim=True)
        rows = exchange.is_malicious.nonzero()[:, 0].tolist()
        drawn = [torch.randn(own.shape[1], generator=exchange.draw(row), dtype=torch.float64) for row in rows]
        return size * torch.stack(drawn).to(own)
