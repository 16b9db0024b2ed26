"""The maximum mean discrepancy (MMD) of two sets of features under sums of Gaussian kernels, for losses.

Gretton, Borgwardt, Rasch, Schoelkopf, Smola. A Kernel Two-Sample Test. JMLR 2012, equation 5 (the biased estimate).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Gaussians:
    """The kernel sum_w exp(-d / w) over the widths, for the squared distance d of two samples.

    ``is_relative``: in units of the mean squared distance of two different samples, which counts as a constant.
    """

    widths: tuple[float, ...]
    is_relative: bool = False

    def value_and_derivative(self, distance: Tensor) -> tuple[Tensor, Tensor]:
        """The kernel, and its derivative by the distance."""
        value, derivative = torch.zeros_like(distance), torch.zeros_like(distance)
        for width, term in self._terms(distance):
            value.add_(term)
            derivative.sub_(term, alpha=1 / width)
        return value, derivative

    def derivative(self, distance: Tensor) -> Tensor:
        derivative = torch.zeros_like(distance)
        for width, term in self._terms(distance):
            derivative.sub_(term, alpha=1 / width)
        return derivative

    def _terms(self, distance: Tensor) -> Iterator[tuple[float, Tensor]]:
        """Each width with its exponentials, which the next one may overwrite: those of half the width are squares."""
        term, before = distance, 0.0
        for width in self.widths:
            term = term.square_() if before == 2 * width else (distance * (-1 / width)).exp_()
            before = width
            yield width, term


def squared_discrepancy(
    a: Float[Tensor, "*A B F"], b: Float[Tensor, "*A B F"], weight: Float[Tensor, "*A B"], kernel: Gaussians
) -> Float[Tensor, "*A"]:
    """The squared MMD of two sets of features with the same ``weight``, which sums to 1; padding has weight 0."""
    both = torch.cat([a, b], dim=-2)
    products = both @ both.mT
    squares = products.diagonal(dim1=-2, dim2=-1)
    distance = (squares[..., None] + squares[..., None, :] - 2 * products).clamp(min=0)
    at, unit = distance.detach(), torch.ones_like(weight[..., 0])
    if kernel.is_relative:
        share = torch.cat([weight, weight], dim=-1) / 2
        unit = _positive(_form(at, share) / _different(share))
    unit = unit[..., None, None]
    value, derivative = kernel.value_and_derivative(at / unit)
    # autograd through several kernels takes longer
    return _form(value + derivative / unit * (distance - at), torch.cat([weight, -weight], dim=-1))


def discrepancy_gradient(
    a: Float[Tensor, "A B F"], b: Float[Tensor, "A B F"], weight: Float[Tensor, "A B"], kernel: Gaussians
) -> Float[Tensor, "A B F"]:
    """The gradient of ``squared_discrepancy`` by ``a``.

    It is 4 w_i sum_j v_j k'(d_ij) (a_i - x_j) over the samples x_j of both sets, with v = w in the first, -w in the
    second.
    """
    both = torch.cat([a, b], dim=1)
    squares = both.square().sum(2)
    distance = torch.baddbmm(squares[:, None], a, both.mT, alpha=-2).add_(squares[:, : a.shape[1], None]).clamp_(min=0)
    factor = 4 * weight[..., None]
    if kernel.is_relative:
        share = torch.cat([weight, weight], dim=1) / 2
        center = torch.bmm(share[:, None], both)[:, 0]
        # The mean over all pairs is twice the variance.
        spread = ((share * squares).sum(1) - center.square().sum(1)).clamp_(min=0)
        unit = _positive(2 * spread / _different(share))[:, None, None]
        distance.div_(unit)
        factor = factor / unit
    pull = kernel.derivative(distance).mul_(torch.cat([weight, -weight], dim=1)[:, None])
    return torch.baddbmm(a * pull.sum(2, keepdim=True), pull, both, alpha=-1).mul_(factor)


def _form(matrix: Float[Tensor, "*A n n"], v: Float[Tensor, "*A n"]) -> Float[Tensor, "*A"]:
    """v^T matrix v."""
    return ((matrix @ v[..., None])[..., 0] * v).sum(-1)


def _different(share: Float[Tensor, "*A n"]) -> Float[Tensor, "*A"]:
    """The share of pairs of different samples."""
    return 1 - share.square().sum(-1)


def _positive(mean: Tensor) -> Tensor:
    """The mean distance, and 1 where it is 0."""
    return torch.where(mean > 0, mean, 1.0)
