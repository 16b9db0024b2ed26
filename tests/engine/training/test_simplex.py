"""Projection onto the simplex and least quadratic forms on it, against known answers and a general solver."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from engine.training.simplex import least_quadratic, project


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    ("point", "nearest"),
    [
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([1.0, 1.0, 1.0], [1 / 3, 1 / 3, 1 / 3]),
        ([2.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.5, 0.9, -3.0], [0.3, 0.7, 0.0]),
        ([-5.0], [1.0]),
    ],
)
def test_projections_known_by_hand(point, nearest):
    np.testing.assert_allclose(project(torch.tensor(point, dtype=torch.float64)), nearest, atol=1e-15)


def test_a_projection_is_nearer_than_every_other_point_of_the_simplex():
    """(v - p)'(q - p) <= 0 for every q, which for a polytope need only hold at its corners."""
    for v in torch.from_numpy(random(200, 6)):
        p = project(v)
        assert float(p.min()) >= 0
        assert float(p.sum()) == pytest.approx(1, abs=1e-14)
        assert float((v - p).max() - (v - p) @ p) < 1e-14


def test_a_constant_changes_no_projection_however_large():
    v = torch.from_numpy(random(5, 7))
    torch.testing.assert_close(project(v + 3.7), project(v), atol=1e-14, rtol=0)
    assert project(torch.tensor([1e308, -1e308, 0.0], dtype=torch.float64)).tolist() == [1, 0, 0]
    assert project(torch.tensor([1e9, 1e9, -1e9], dtype=torch.float64)).tolist() == [0.5, 0.5, 0]


def test_rows_are_projected_one_by_one_in_their_dtype():
    rows = torch.from_numpy(random(2, 3, 4)).float()
    together = project(rows)
    assert together.dtype == torch.float32
    for i in range(2):
        for j in range(3):
            assert torch.equal(together[i, j], project(rows[i, j]))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_is_projected_to_uniform_weights_alone(bad):
    rows = torch.tensor([[bad, 1.0], [5.0, 0.0]])
    assert project(rows).tolist() == [[0.5, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12])
def test_the_least_quadratic_form_agrees_with_a_general_solver(n):
    half = random(n, n + 2, seed=n) + 0.5
    matrix = half @ half.T
    weights = least_quadratic(matrix)
    found = minimize(
        lambda a: a @ matrix @ a,
        np.full(n, 1 / n),
        jac=lambda a: 2 * matrix @ a,
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(weights, found.x, atol=1e-6)
    slopes = matrix @ weights  # optimal: equal where the weight is positive, and nowhere smaller
    np.testing.assert_allclose(slopes[weights > 0], weights @ slopes, rtol=1e-10)
    assert slopes.min() >= weights @ slopes * (1 - 1e-10)


def test_a_diagonal_form_is_least_at_weights_inverse_to_it_at_any_scale():
    for scale in (1e-200, 1.0, 1e200):
        np.testing.assert_allclose(least_quadratic(scale * np.diag([1.0, 2.0, 4.0])), np.array([4, 2, 1]) / 7)


@pytest.mark.parametrize(
    "matrix", [np.zeros((3, 3)), -np.eye(3), np.full((3, 3), np.nan), np.diag([1, np.inf, 1])], ids=str
)
def test_a_form_that_is_not_positive_definite_gives_uniform_weights(matrix):
    np.testing.assert_array_equal(least_quadratic(matrix), [1 / 3, 1 / 3, 1 / 3])
