"""Model replacement: malicious clients train on wrong labels and scale their update up, to outweigh the others.

Attack A3 of Li, Hu, Beirami, Smith. Ditto: Fair and Robust Federated Learning Through Personalization. ICML 2021.
https://arxiv.org/abs/2012.04221. After Bagdasaryan et al. How To Backdoor Federated Learning. AISTATS 2020.
https://arxiv.org/abs/1807.00459

    Delta_i <- scale Delta_i                              trained on poisoned labels; S clients in the cohort
"""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.attacks import HOW, Attack, AttackOptions, Exchange, Poison
from engine.core.registry import ATTACKS, NonNegative


class ReplaceOptions(AttackOptions):
    scale: NonNegative | Literal["S"] = Field("S", description="Factor on the update; S is the size of the cohort.")
    how: Poison = Field("random", title="New labels", description=f"New training labels of malicious clients. {HOW}")


@ATTACKS.register("replace", title="Model replacement", paper="Bagdasaryan et al., AISTATS 2020")
@dataclass(frozen=True)
class Replace(Attack):
    options: ReplaceOptions

    @property
    def poison(self) -> Poison:
        return self.options.how

    def corrupt(self, exchange: Exchange) -> Float[Tensor, "m P"]:
        scale = len(exchange.delta) if self.options.scale == "S" else float(self.options.scale)
        return scale * exchange.own
