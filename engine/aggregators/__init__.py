"""Aggregators: how the server combines the updates that arrived. One file each, registered in ``AGGREGATORS``.

An aggregator is a frozen dataclass with ``options`` and ``combine(delta, weights, num_malicious)``. ``delta`` has a row
for each upload, in the order of the clients: the upload minus what it is measured from. A rule that cannot act on
few uploads says with ``needs(num_malicious)`` how many it needs.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Combined:
    """The update of the server."""

    weight: Float[Tensor, "A"]  # share of each upload in it
    delta: Float[Tensor, "P"] | None = None  # None: the mean of the uploads with these weights
    fell_back: bool = False  # too few uploads for the rule, so that the mean was taken


class Aggregator(Protocol):
    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        """The update from at least one Delta. ``weights`` are the method's; ``num_malicious`` is the expected number.

        Rules without weights of their own use every upload alike.
        """

    def needs(self, num_malicious: int) -> int:
        """The least number of uploads among which the rule can withstand one; most rules take the mean of fewer."""
        return 1


def squared_distances(delta: Float[Tensor, "A P"]) -> Float[Tensor, "A A"]:
    """||Delta_i - Delta_j||^2 in double precision, from differences: products cancel and may become negative."""
    rows = delta.double()
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(rows, rows, compute_mode=exact).square().nan_to_num(nan=torch.inf, posinf=torch.inf)


def use_of_rows(kept: Tensor, like: Float[Tensor, "A"]) -> Float[Tensor, "A"]:
    """The share of each row among the entries of ``kept``, row numbers by coordinate."""
    counts = torch.bincount(kept.flatten(), minlength=len(like))
    return counts.to(like) / kept.numel()
