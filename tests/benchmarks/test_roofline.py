"""The operations that the roofline counts."""

from collections.abc import Callable

import torch
from torch.nn import functional as F

from benchmarks.roofline import Flops
from engine.algorithms.pfedfda import coefficients


def counted(compute: Callable[[], object]) -> int:
    with Flops() as counter:
        compute()
    return counter.total


def test_an_operation_in_double_precision_counts_as_two() -> None:
    a = torch.rand(4, 5)
    assert counted(lambda: a @ a.T) == 2 * 4 * 5 * 4
    assert counted(lambda: a.double() @ a.double().T) == 2 * 2 * 4 * 5 * 4


def test_products_that_are_added_in_place_count() -> None:
    a, b = torch.rand(2, 4, 5), torch.rand(2, 5, 3)
    assert counted(lambda: torch.zeros(2, 4, 3).baddbmm_(a, b)) == 2 * 2 * 4 * 5 * 3
    assert counted(lambda: torch.zeros(4, 3).addmm_(a[0], b[0])) == 2 * 4 * 5 * 3


def test_a_convolution_and_its_gradients_count() -> None:
    x = torch.rand(2, 1, 8, 8, requires_grad=True)
    weight = torch.rand(3, 1, 3, 3, requires_grad=True)
    forward = 2 * 2 * 3 * 6 * 6 * 1 * 3 * 3
    assert counted(lambda: F.conv2d(x, weight)) == forward
    assert counted(lambda: F.conv2d(x, weight).sum().backward()) == 3 * forward


def test_systems_that_scipy_solves_count() -> None:
    means, covariance = torch.rand(3, 6, dtype=torch.float64), torch.eye(6, dtype=torch.float64)
    factor, solved = 6**3 // 3, 2 * 6**2 * 3
    assert counted(lambda: coefficients(means, covariance, 1e-4)) == 2 * (factor + solved)
