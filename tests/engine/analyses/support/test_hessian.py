"""Eigenvalues, traces and worst losses of quadratics, with known values."""

import numpy as np
import pytest
import torch

from engine.analyses.support.hessian import Objective, top_eigenvalue, trace, worst_in_ball


def quadratic(matrix: torch.Tensor, slope: torch.Tensor) -> Objective:
    """x A x / 2 + g x around 0, as two equal terms on two tensors."""

    def half(params: dict[str, torch.Tensor]) -> torch.Tensor:
        x = torch.cat([params["a"].flatten(), params["b"]])
        return (x @ matrix @ x / 2 + slope @ x) / 2

    like = {"a": torch.zeros(2, 2, dtype=torch.float64), "b": torch.zeros(len(matrix) - 4, dtype=torch.float64)}
    return Objective([half, half], like)


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def rotated(values: list[float]) -> torch.Tensor:
    """A symmetric matrix with these eigenvalues."""
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64, generator=stream()))
    return q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ q.T


VALUES = [7.0, 3.0, 2.0, 1.0, 0.5, -9.0]
FLAT = torch.zeros(6, dtype=torch.float64)


def test_the_top_eigenvalue_of_a_quadratic_is_the_largest_not_the_most_negative() -> None:
    objective = quadratic(rotated(VALUES), FLAT)
    found = top_eigenvalue(objective, objective.start, stream(), tolerance=1e-12)
    assert found.value == pytest.approx(7, rel=1e-10) and found.products <= 6


def test_a_rough_eigenvalue_stays_within_its_bound() -> None:
    values = torch.linspace(1, 5, 60).tolist()
    objective = quadratic(rotated(values), torch.zeros(60, dtype=torch.float64))
    found = top_eigenvalue(objective, objective.start, stream(), tolerance=0.02)
    nearest = min(abs(found.value - v) for v in values)
    assert nearest <= found.bound <= 0.02 * found.value and found.products < 60


def test_the_trace_is_exact_for_few_parameters_and_for_diagonal_hessians() -> None:
    objective = quadratic(rotated(VALUES), FLAT)
    assert trace(objective, objective.start, stream(), vectors=6) == (pytest.approx(sum(VALUES)), 0)
    plain = quadratic(torch.diag(torch.tensor(VALUES, dtype=torch.float64)), FLAT)
    assert trace(plain, plain.start, stream(), vectors=3) == (pytest.approx(sum(VALUES)), pytest.approx(0, abs=1e-12))


def test_random_signs_find_the_trace_within_their_error() -> None:
    matrix = rotated(VALUES * 10)
    objective = quadratic(matrix, torch.zeros(60, dtype=torch.float64))
    found = trace(objective, objective.start, stream(), vectors=40)
    assert abs(found.value - 10 * sum(VALUES)) < 4 * found.standard_error
    of_one = (2 * (matrix.square().sum() - matrix.diagonal().square().sum())).sqrt()  # Hutchinson's deviation
    assert found.standard_error == pytest.approx(float(of_one) / 40**0.5, rel=0.3)


def test_the_worst_loss_in_a_ball_around_a_minimum_is_that_of_the_top_eigenvector() -> None:
    objective = quadratic(rotated([7.0, 3.0, 2.0, 1.0, 0.5, 0.1]), FLAT)
    found = worst_in_ball(objective, objective.start, 0.1, stream(), steps=60)
    assert found.worst == pytest.approx(7 * 0.1**2 / 2, rel=1e-6) and found.first_order == found.center == 0


def test_on_a_slope_the_worst_point_is_the_first_order_one() -> None:
    slope = torch.tensor([3.0, 0, 4, 0, 0, 0], dtype=torch.float64)
    objective = quadratic(torch.zeros(6, 6, dtype=torch.float64), slope)
    found = worst_in_ball(objective, objective.start, 0.2, stream())
    assert found.first_order == pytest.approx(0.2 * 5) == found.worst


def test_a_nan_loss_nearby_makes_the_worst_loss_nan() -> None:
    def root(params: dict[str, torch.Tensor]) -> torch.Tensor:
        return (params["a"].sum() + 1).sqrt() - 2 * params["a"].sum()  # rises toward the points where it is undefined

    objective = Objective([root], {"a": torch.zeros(1, dtype=torch.float64)})
    assert np.isnan(worst_in_ball(objective, objective.start, 2.0, stream()).worst)
    assert worst_in_ball(objective, objective.start, 0.5, stream()).worst == pytest.approx(0.5**0.5 + 1)


def test_slope_and_curvature_add_up_along_one_direction() -> None:
    matrix = torch.diag(torch.tensor([4.0, 1, 1, 1, 1, 1], dtype=torch.float64))
    objective = quadratic(matrix, torch.tensor([1.0, 0, 0, 0, 0, 0], dtype=torch.float64))
    found = worst_in_ball(objective, objective.start, 0.5, stream())
    assert found.worst == pytest.approx(0.5 + 4 * 0.25 / 2)


def test_a_quadratics_surface_is_a_quadratic() -> None:
    matrix = rotated(VALUES)
    objective = quadratic(matrix, FLAT)
    u, v = torch.eye(6, dtype=torch.float64)[:2]
    at = objective.value(0.3 * u - 0.2 * v)
    assert at == pytest.approx(float((0.09 * matrix[0, 0] - 0.12 * matrix[0, 1] + 0.04 * matrix[1, 1]) / 2))
