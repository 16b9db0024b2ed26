"""Perturbations in gradient direction, with known values."""

import math

import pytest
import torch

from engine.training.sam import layer_scores, most_personal, uphill, uphill_by_layer
from tests.support.builders import assert_close


def test_sam_moves_along_the_gradient_by_rho():
    eps = uphill({"a": torch.tensor([[3.0], [0.0]]), "b": torch.tensor([[[4.0, 0.0]], [[0.0, 0.0]]])}, 0.5).eps
    assert_close(eps, {"a": torch.tensor([[0.3], [0.0]]), "b": torch.tensor([[[0.4, 0.0]], [[0.0, 0.0]]])}, 1e-6)


@pytest.mark.parametrize("p", [1.01, 1.5, 2.0, 3.0, 50.0])
def test_the_perturbation_maximizes_the_linearized_loss(p):
    """Hölder: the largest <g, eps> with ||eps||_p = rho is rho ||g||_q."""
    drawn = torch.randn(2, 17, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = {"a": drawn[:, :12].view(2, 3, 4), "b": drawn[:, 12:]}
    eps = uphill(g, 0.7, p).eps
    flat = lambda params: torch.cat([t.flatten(1) for t in params.values()], 1)  # noqa: E731
    torch.testing.assert_close(flat(eps).norm(p, dim=1), torch.full((2,), 0.7, dtype=torch.float64))
    torch.testing.assert_close((flat(eps) * flat(g)).sum(1), 0.7 * flat(g).norm(p / (p - 1), dim=1))


def test_the_point_uphill_is_that_of_the_parameters_that_move():
    climb = uphill({"a": torch.tensor([[3.0, 4.0]])}, 0.5)
    assert_close(
        climb.beyond({"a": torch.tensor([[1.0, 1.0]]), "b": torch.ones(1, 2)}), {"a": torch.tensor([[1.3, 1.4]])}, 1e-6
    )


@pytest.mark.parametrize("size", [1e-38, 1e38])
def test_tiny_and_huge_gradients_give_the_same_perturbation(size):
    g = {"a": torch.tensor([[1.0, -2.0, 0.5]])}
    assert_close(uphill({"a": g["a"] * size}, 1.0, 1.2).eps, uphill(g, 1.0, 1.2).eps, 1e-5)


def test_each_layer_is_perturbed_by_its_score():
    g = {n: torch.ones(2, 2) for n in "abc"}
    eps = uphill_by_layer(g, torch.tensor([[0.25, 0.75], [1.0, 0.0]]), (("a",), ("b", "c")), 1.0).eps
    whole = 1 / math.sqrt(6)
    expected = {"a": [[0.25] * 2, [1.0] * 2], "b": [[0.75] * 2, [0.0] * 2], "c": [[0.75] * 2, [0.0] * 2]}
    assert_close(eps, {n: torch.tensor(t) * whole for n, t in expected.items()}, 1e-6)


def test_scores_are_distances_per_parameter_and_sum_to_one():
    w = {"a": torch.zeros(2, 2), "b": torch.zeros(2, 3), "c": torch.zeros(2, 1)}
    theta = {
        "a": torch.tensor([[3.0, 4.0], [0.0, 0.0]]),
        "b": torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]),
        "c": torch.tensor([[0.0], [0.0]]),
    }
    expected = torch.tensor([[2.5 / 3, 0.5 / 3], [0.5, 0.5]])  # 5/2 and 2/4; the second client equals w
    torch.testing.assert_close(layer_scores(theta, w, (("a",), ("b", "c"))), expected)


def test_among_equal_layers_the_first_are_personal():
    scores = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.1, 0.4, 0.4, 0.1]])
    assert most_personal(scores, 2).tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    assert most_personal(scores, 0).sum() == 0
