"""Distances and angles between the flattened models of clients, in double precision.

Both are summed tensor by tensor, so that no matrix of all parameters is made.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from engine.core.params import ClientParams

_PIECE = 2048  # numbers of a model whose copies in double precision, of some dozens of clients, stay in the cache


def squared_distances(a: ClientParams, b: ClientParams) -> Float[Tensor, "A B"]:
    """||a_i - b_j||^2 of all pairs.

    The mean of ``b`` is subtracted first: models are often much nearer to one another than to zero, and products of
    large numbers would hide their distance.
    """
    total = None
    for n, p in b.items():
        center = p.double().mean(0)
        rows, others = ((x.double() - center).flatten(1) for x in (a[n], p))
        squares = rows.square().sum(1)[:, None] + others.square().sum(1)
        part = torch.addmm(squares, rows, others.T, alpha=-2)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total.clamp_(min=0)


def cosines(a: ClientParams, b: ClientParams) -> Float[Tensor, "A B"]:
    """The cosine of the angle between the models of all pairs; 0 where one of them is zero."""
    first, second = next(iter(a.values())), next(iter(b.values()))
    of_a, of_b = (p.new_zeros(len(p), dtype=torch.float64) for p in (first, second))
    products = of_a.new_zeros(len(first), len(second))
    for n, p in b.items():
        for x, y in zip(a[n].flatten(1).split(_PIECE, dim=1), p.flatten(1).split(_PIECE, dim=1), strict=True):
            x, y = x.double(), y.double()
            products.addmm_(x, y.T)
            of_a.add_(x.square().sum(1))
            of_b.add_(y.square().sum(1))
    of_a, of_b = (squares.sqrt().where(squares > 0, 1) for squares in (of_a, of_b))
    return (products / of_a[:, None] / of_b).nan_to_num().clamp(-1, 1)


def mean_squared_distance(models: ClientParams) -> Float[Tensor, ""]:
    """Over all pairs of two different models: 2 / (K - 1) sum_k ||w_k - mean w||^2; 0 for a single one."""
    count = len(next(iter(models.values())))
    spread = [(p.double() - p.double().mean(0)).square().sum() for p in models.values()]
    return 2 / max(1, count - 1) * torch.stack(spread).sum()
