"""The gradient of the discrepancy that is derived by hand is that of autograd."""

import pytest
import torch

from engine.training.discrepancy import Gaussians, discrepancy_gradient, squared_discrepancy


@pytest.mark.parametrize("kernel", [Gaussians((4.0, 2.0, 0.5)), Gaussians((4.0, 2.0, 0.5), is_relative=True)])
def test_discrepancy_gradient_is_the_gradient_of_the_discrepancy(kernel):
    stream = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, 5, 3, generator=stream, dtype=torch.float64) for _ in range(2))
    weight = torch.tensor([[0.2] * 5, [0.25] * 4 + [0.0]], dtype=torch.float64)
    leaf = a.clone().requires_grad_()
    (expected,) = torch.autograd.grad(squared_discrepancy(leaf, b, weight, kernel).sum(), leaf)
    torch.testing.assert_close(discrepancy_gradient(a, b, weight, kernel), expected, rtol=1e-10, atol=1e-12)
    assert discrepancy_gradient(torch.zeros_like(a), torch.zeros_like(a), weight, kernel).eq(0).all()


def test_a_kernel_of_half_the_width_is_the_square():
    distance = torch.tensor([0.5, 3.0], dtype=torch.float64)
    value, derivative = Gaussians((4.0, 2.0, 3.0)).value_and_derivative(distance)
    terms = [torch.exp(-distance / width) for width in (4, 2, 3)]
    torch.testing.assert_close(value, terms[0] + terms[1] + terms[2])
    torch.testing.assert_close(derivative, -terms[0] / 4 - terms[1] / 2 - terms[2] / 3)
    torch.testing.assert_close(Gaussians((4.0, 2.0, 3.0)).derivative(distance), derivative)
