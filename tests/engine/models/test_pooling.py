"""Max-pooling by maxima of rows and columns is that of PyTorch, in values and derivatives of any order."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from engine.models.pooling import MaxPool1d, MaxPool2d

KINDS = {
    "1d": (MaxPool1d(), nn.MaxPool1d(2), (3, 4, 12)),
    "1d with an odd length": (MaxPool1d(), nn.MaxPool1d(2), (3, 4, 9)),
    "2d": (MaxPool2d(), nn.MaxPool2d(2), (3, 4, 6, 8)),
    "2d with odd sides": (MaxPool2d(), nn.MaxPool2d(2), (3, 4, 7, 5)),
}
Pool = Callable[[Tensor], Tensor]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Pool, Pool, tuple[int, ...]]:
    return KINDS[request.param]


def images(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Few different values, so that many windows have several maxima."""
    return torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(seed)).double()


def score(pool: Pool, x: Tensor) -> Tensor:
    """A smooth function of the maxima, with another weight for each."""
    pooled = pool(x)
    return (pooled.exp() * torch.linspace(-1, 1, pooled.numel(), dtype=x.dtype).view_as(pooled)).sum()


def curvature(pool: Pool, x: Tensor) -> Tensor:
    """The gradient of a slope."""
    return grad(lambda x: (grad(lambda x: score(pool, x))(x) * x.cos()).sum())(x)


def test_values_are_those_of_pytorch(kind):
    ours, theirs, shape = kind
    assert torch.equal(ours(images(shape)), theirs(images(shape)))
    assert ours(images(shape).fill_(torch.nan)).isnan().all()


def test_of_equal_maxima_the_same_one_gets_the_gradient(kind):
    ours, theirs, shape = kind
    x = images(shape)
    assert torch.equal(grad(lambda x: score(ours, x))(x), grad(lambda x: score(theirs, x))(x))


def test_second_derivatives_are_those_of_pytorch(kind):
    ours, theirs, shape = kind
    torch.testing.assert_close(curvature(ours, images(shape)), curvature(theirs, images(shape)))


def test_third_derivatives_are_those_of_pytorch(kind):
    ours, theirs, shape = kind
    third = [grad(lambda x, pool=pool: curvature(pool, x).sin().sum())(images(shape)) for pool in (ours, theirs)]
    torch.testing.assert_close(*third)


@pytest.mark.parametrize("order", [score, curvature])
def test_clients_are_pooled_at_once_as_one_by_one(kind, order):
    ours, _, shape = kind
    x = torch.stack([images(shape, seed) for seed in range(4)], dim=1)
    derivative = grad(lambda x: score(ours, x)) if order is score else lambda x: curvature(ours, x)
    together = vmap(derivative, in_dims=1)(x)
    assert torch.equal(together, torch.stack([derivative(one) for one in x.unbind(1)]))
