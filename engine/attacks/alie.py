"""A little is enough: malicious clients all send the same update, a few standard deviations from the benign mean.

Baruch, Baruch, Goldberg. A Little Is Enough: Circumventing Defenses For Distributed Learning. NeurIPS 2019.
https://arxiv.org/abs/1902.06156, Algorithm 3.

    s <- floor(n/2 + 1) - m                               benign clients needed for a majority, of n in the cohort
    z <- Phi^-1((n - m - s) / (n - m))                    m malicious ones
    Delta_i <- mean - z std                               per coordinate, over the benign Deltas of the round

Deviations: mean and deviation are those of the benign clients (omniscient), where the paper estimates them from the
attackers' own. At least one supporter is needed, also where the attackers are a majority.

Pitfalls: ByzFL documents the population's standard deviation and computes the sample's, as do the paper and we.
"""

from dataclasses import dataclass
from math import floor
from statistics import NormalDist
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.attacks import Attack, AttackOptions, Exchange
from engine.core.registry import ATTACKS

Deviations = Annotated[float, Field(ge=-100, le=100)]


class AlieOptions(AttackOptions):
    z: Deviations | Literal["max"] = Field(
        "max",
        title="Distance (z)",
        description="Distance from the benign mean in standard deviations; max: the largest at which enough benign "
        "updates are even farther away to form a majority with the malicious ones.",
    )


@ATTACKS.register("alie", title="A little is enough", paper="Baruch et al., NeurIPS 2019", short="ALIE")
@dataclass(frozen=True)
class Alie(Attack):
    reads_others: ClassVar[bool] = True

    options: AlieOptions

    def corrupt(self, exchange: Exchange) -> Float[Tensor, "m P"]:
        benign = exchange.delta[~exchange.is_malicious]
        count, total = len(benign), len(exchange.delta)
        if not count:
            return exchange.own
        spread = benign.std(dim=0, unbiased=True) if count > 1 else torch.zeros_like(benign[0])
        z = 0.0 if count == 1 else covered(total, total - count) if self.options.z == "max" else float(self.options.z)
        return (benign.mean(0) - z * spread).expand(total - count, -1)

    def weakness(self, uploads: int, num_malicious: int) -> str | None:
        if self.options.z != "max" or num_malicious == uploads:
            return None
        z = covered(uploads, num_malicious)
        if z > 0:
            return None
        return f"z is {z:.2g}, so alie sends {'about ' if z else ''}the benign mean; raise attack.share or set attack.z"


def covered(n: int, m: int) -> float:
    """The largest z at which enough normally distributed updates are farther from their mean to form a majority with
    the malicious ones, m of n.
    """
    supporters = max(1, floor(n / 2 + 1) - m)
    return NormalDist().inv_cdf((n - m - supporters) / (n - m)) if n - m > supporters else 0.0
