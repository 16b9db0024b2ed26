"""The curvature of a loss around a model: top eigenvalue and trace of the Hessian, and the largest loss nearby.

The Hessian H is never formed. H x is the derivative of the gradient along x; a loss is a sum of terms, and the graph of
only one term is in memory. Points and directions are vectors [P], all parameters concatenated.

    Lanczos (1950): the largest eigenvalue of the tridiagonal matrix of the Krylov space of a random vector
    Hutchinson (1989): trace H = mean of z^T H z over random signs z
    Foret, Kleiner, Mobahi, Neyshabur, ICLR 2021 (SAM): max over ||eps|| <= rho of loss(theta + eps) - loss(theta)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, grad_and_value, vjp

from engine.core.params import SharedParams, flatten, row, unflatten

Term = Callable[[SharedParams], Tensor]
Vector = Float[Tensor, "P"]


class Eigenvalue(NamedTuple):
    value: float
    bound: float  # distance to an eigenvalue of H is at most this
    products: int


class Trace(NamedTuple):
    value: float
    standard_error: float  # 0 if exact


class Ball(NamedTuple):
    """Losses around a point: at the point, after one ascent step of length rho, and the largest found within rho."""

    center: float
    first_order: float
    worst: float


@dataclass(frozen=True)
class Objective:
    """The sum of ``terms`` as a function of a vector; ``like`` gives names and shapes of the parameters."""

    terms: Sequence[Term]
    like: SharedParams
    tick: Callable[[], None] = lambda: None

    @property
    def start(self) -> Vector:
        """``like`` as a vector."""
        return flatten({n: p[None] for n, p in self.like.items()})[0]

    def value(self, at: Vector) -> float:
        self.tick()
        with torch.no_grad():
            return sum(float(term(self._params(at))) for term in self.terms)

    def gradient_and_value(self, at: Vector) -> tuple[Vector, float]:
        """The gradient, and the value."""
        self.tick()
        parts = [grad_and_value(self._of(term))(at) for term in self.terms]
        return torch.stack([g for g, _ in parts]).sum(0), sum(float(v) for _, v in parts)

    def curved(self, at: Vector, direction: Vector) -> Vector:
        """H direction: the derivative of <gradient, direction>, as H is symmetric."""
        self.tick()
        parts = [vjp(grad(self._of(term)), at)[1](direction)[0] for term in self.terms]
        return torch.stack(parts).sum(0)

    def _of(self, term: Term) -> Callable[[Vector], Tensor]:
        return lambda at: term(self._params(at))

    def _params(self, at: Vector) -> SharedParams:
        return row(unflatten(at[None], self.like), 0)


def top_eigenvalue(
    objective: Objective, at: Vector, stream: torch.Generator, *, tolerance: float = 1e-3, most: int = 100
) -> Eigenvalue:
    """The largest eigenvalue, by Lanczos until the bound is below ``tolerance`` times the value.

    Without reorthogonalisation: copies of converged eigenvalues appear, which do not change the largest.
    """
    q, before = _unit(_normal(at, stream)), torch.zeros_like(at)
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    found = Eigenvalue(math.nan, math.inf, 0)
    for _ in range(min(most, len(at))):
        image = objective.curved(at, q)
        diagonal.append(float(q @ image))
        image = image - diagonal[-1] * q - (off_diagonal[-1] if off_diagonal else 0.0) * before
        length = float(image.norm())
        found = _largest(diagonal, off_diagonal, length)
        if not length or not found.bound > tolerance * abs(found.value):
            break
        off_diagonal.append(length)
        before, q = q, image / length
    return found


def trace(objective: Objective, at: Vector, stream: torch.Generator, *, vectors: int = 32) -> Trace:
    """Estimates the trace from random sign vectors; exact if there are at least as many as parameters."""
    if len(at) <= vectors:
        basis = torch.eye(len(at), dtype=at.dtype, device=at.device)
        return Trace(sum(float(e @ objective.curved(at, e)) for e in basis), 0.0)
    samples = []
    for _ in range(vectors):
        signs = (torch.randint(0, 2, at.shape, generator=stream) * 2 - 1).to(at.device, at.dtype)
        samples.append(float(signs @ objective.curved(at, signs)))
    drawn = torch.tensor(samples, dtype=torch.float64)
    return Trace(float(drawn.mean()), float(drawn.std() / len(drawn) ** 0.5))


def worst_in_ball(objective: Objective, at: Vector, rho: float, stream: torch.Generator, *, steps: int = 20) -> Ball:
    """Gradient ascent in steps of rho, projected onto the ball, from the first-order point; keeps the largest loss.

    If the gradient is zero, it starts in a random direction. NaN if a loss on the way is NaN.
    """
    gradient, center = objective.gradient_and_value(at)
    is_flat = not gradient.any()
    eps = rho * _unit(_normal(at, stream) if is_flat else gradient)
    losses = []
    for _ in range(steps):
        gradient, loss = objective.gradient_and_value(at + eps)
        losses.append(loss)
        eps = eps + rho * _unit(gradient)
        eps = eps * min(1.0, rho / max(float(eps.norm()), 1e-30))
    losses.append(objective.value(at + eps))
    worst = math.nan if any(map(math.isnan, losses)) else max([center, *losses])
    return Ball(center, center if is_flat else losses[0], worst)


def _largest(diagonal: list[float], off_diagonal: list[float], length: float) -> Eigenvalue:
    """The largest eigenvalue of the tridiagonal matrix, with the error bound by the next vector's norm (Paige 1971)."""
    if not math.isfinite(sum(diagonal) + length):
        return Eigenvalue(math.nan, math.nan, len(diagonal))
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if off_diagonal:
        sides = torch.tensor(off_diagonal, dtype=torch.float64)
        matrix = matrix + torch.diag(sides, 1) + torch.diag(sides, -1)
    values, vectors = torch.linalg.eigh(matrix)
    return Eigenvalue(float(values[-1]), abs(length * float(vectors[-1, -1])), len(diagonal))


def _normal(like: Vector, stream: torch.Generator) -> Vector:
    return torch.randn(like.shape, generator=stream, dtype=torch.float64).to(like.device, like.dtype)


def _unit(v: Vector) -> Vector:
    length = v.norm()
    return v / length if length else v
