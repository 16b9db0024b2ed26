"""Directions in a model's parameters: random ones that respect its scale, and those that lead to another model.

Li, Xu, Taylor, Studer, Goldstein. Visualizing the Loss Landscape of Neural Nets. NeurIPS 2018. https://arxiv.org/abs/1712.09913,
section 4: each filter (the weights into one unit) of a Gaussian direction gets the norm of the model's own filter, so
that a step of 1 is as large as the filter for any scale of its weights. Biases and the parameters of
normalizations have no filters and are not changed, as in the published code.
"""

import torch
from torch import Tensor

from engine.core.params import SharedParams, map_params
from engine.core.streams import torch_stream


def gaussian(like: SharedParams, seed: int, which: int) -> SharedParams:
    """Gaussian direction number ``which``: equal for all models of one architecture, on every device."""
    stream = torch_stream(seed, "direction", which)
    drawn = {n: torch.randn(p.shape, generator=stream, dtype=torch.float64) for n, p in like.items()}
    return {n: d.to(like[n].device, like[n].dtype) for n, d in drawn.items()}


def filter_normalized(direction: SharedParams, params: SharedParams) -> SharedParams:
    """Scales each filter of ``direction`` to the norm of that filter in ``params``; 0 for biases and normalizations."""
    return {n: _as_long(d, params[n]) if d.dim() > 1 else torch.zeros_like(d) for n, d in direction.items()}


def dot(a: SharedParams, b: SharedParams) -> float:
    """<a, b> over all parameters, summed in double."""
    return sum(float((a[n].double() * b[n].double()).sum()) for n in a)


def norm(a: SharedParams) -> float:
    return dot(a, a) ** 0.5


def difference(end: SharedParams, start: SharedParams) -> SharedParams:
    return map_params(torch.sub, end, start)


def orthonormal(u: SharedParams, v: SharedParams) -> tuple[SharedParams, SharedParams]:
    """Gram-Schmidt: unit vectors along u, and along the rest of v; zero vectors stay 0."""
    first = _unit(u)
    rest = without(first, without(first, v))  # twice, for the rounding error
    return first, _unit(rest)


def _as_long(d: Tensor, p: Tensor) -> Tensor:
    lengths = [torch.linalg.vector_norm(t.flatten(1), dim=1).view(-1, *[1] * (t.dim() - 1)) for t in (p, d)]
    return d * (lengths[0] / lengths[1])


def without(unit: SharedParams, v: SharedParams) -> SharedParams:
    """The part of v that is orthogonal to a unit vector."""
    share = dot(unit, v)
    return map_params(lambda p, q: p - share * q, v, unit)


def _unit(a: SharedParams) -> SharedParams:
    length = norm(a)
    return map_params(lambda p: p / length if length else torch.zeros_like(p), a)
