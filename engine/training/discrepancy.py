"""The maximum mean discrepancy (MMD) of two sets of features, for losses.

Gretton, Borgwardt, Rasch, Schoelkopf, Smola. A Kernel Two-Sample Test. JMLR 2012, equation 5 (the biased estimate).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Kernel = Callable[[Tensor, Tensor], Tensor]
"""(squared distances of all pairs [*A n n], the samples' shares [*A n]) -> the kernel of each pair."""


def squared_discrepancy(
    a: Float[Tensor, "*A B F"], b: Float[Tensor, "*A B F"], weight: Float[Tensor, "*A B"], kernel: Kernel
) -> Float[Tensor, "*A"]:
    """The squared MMD of two sets of features with the same ``weight``, which sums to 1; padding has weight 0."""
    both = torch.cat([a, b], dim=-2)
    products = both @ both.mT
    squares = products.diagonal(dim1=-2, dim2=-1)
    distance = (squares[..., None] + squares[..., None, :] - 2 * products).clamp(min=0)
    share = torch.cat([weight, weight], dim=-1) / 2
    return form(kernel(distance, share), torch.cat([weight, -weight], dim=-1))


def form(matrix: Float[Tensor, "*A n n"], v: Float[Tensor, "*A n"]) -> Float[Tensor, "*A"]:
    """v^T matrix v."""
    return ((matrix @ v[..., None])[..., 0] * v).sum(-1)


def with_slope(distance: Tensor, value: Tensor, slope: Tensor) -> Tensor:
    """``value``, with ``slope`` as its derivative by ``distance``: autograd through several kernels takes longer."""
    return value + slope * (distance - distance.detach())
