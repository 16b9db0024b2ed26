"""How near each update is to the others: shared by Krum and multi-Krum."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from engine.aggregators import squared_distances
from engine.core.registry import Options

Number = Annotated[int, Field(ge=0, le=1_000_000)]


class NearestOptions(Options):
    f: Number | Literal["auto"] = Field(
        "auto",
        title="Malicious uploads (f)",
        description="Malicious uploads to withstand; auto: as many as are expected among those that arrived.",
    )

    def bound(self, num_malicious: int) -> int:
        """f, where this many malicious uploads are expected."""
        return num_malicious if self.f == "auto" else int(self.f)

    def needs(self, num_malicious: int) -> int:
        """2 f + 3 uploads, where this many malicious ones are expected."""
        return 2 * self.bound(num_malicious) + 3


def by_score(delta: Float[Tensor, "A P"], f: int) -> Int[Tensor, "A"]:
    """At least 2 f + 3 rows, by the sum of squared distances to the A - f - 2 nearest others."""
    distances = squared_distances(delta).fill_diagonal_(torch.inf)  # the own one sorts last
    return distances.sort(dim=1).values[:, : len(delta) - f - 2].sum(1).sort(stable=True).indices


def only(rows: Int[Tensor, "kept"], weights: Float[Tensor, "A"]) -> Float[Tensor, "A"]:
    """Equal weights on these rows, 0 on the others."""
    return torch.zeros_like(weights).index_fill(0, rows, 1 / len(rows))
