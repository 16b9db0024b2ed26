"""Where every setting of the lambda dial ends: numbers that ship with the product (``benchmarks/lambda_dial.py``)."""

import json
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from engine.core.paths import ASSETS

EXAMPLE = ASSETS / "examples" / "lambda_dial.json"

ALONE, ADAPTIVE, TOGETHER = "alone", "adaptive", "together"
Stop = float | str
"""A lambda, or one of the three names."""

SPREADS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
LAMBDAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Curve:
    """Where runs on clients of one spread end: mean squared distance of each client's model from its true model."""

    R: float
    lambdas: tuple[float, ...]
    errors: tuple[float, ...]  # one for each lambda
    alone: float
    together: float
    adaptive_lam: float
    adaptive: float

    @property
    def best_lam(self) -> float:
        return self.lambdas[int(np.argmin(self.errors))]

    @property
    def best(self) -> float:
        return min(self.errors)


@dataclass(frozen=True)
class Example:
    """The shipped results."""

    command: str
    curves: tuple[Curve, ...]
    center: np.ndarray  # [d] w_0
    directions: np.ndarray  # [N, d] u_i, so that w_i = w_0 + R u_i

    def curve(self, R: float) -> Curve:
        return next(curve for curve in self.curves if curve.R == R)

    def truth(self, R: float) -> np.ndarray:
        """[N, d] the clients' true models."""
        return self.center + R * self.directions

    def lam_of(self, R: float, stop: Stop) -> float | None:
        """The lambda that the dial stands for; None where all share one model."""
        if isinstance(stop, float):
            return stop
        return {ALONE: 0.0, ADAPTIVE: self.curve(R).adaptive_lam, TOGETHER: None}[stop]

    def goal(self, R: float, stop: Stop) -> float:
        """The error at which a run with this setting ends."""
        curve = self.curve(R)
        if isinstance(stop, float):
            return curve.errors[curve.lambdas.index(stop)]
        return {ALONE: curve.alone, ADAPTIVE: curve.adaptive, TOGETHER: curve.together}[stop]

    @cached_property
    def plane(self) -> np.ndarray:
        """[d, 2] the plane in which the true models differ most."""
        axes = np.linalg.svd(self.directions - self.directions.mean(0))[2][:2]
        return np.asarray(axes.T)

    def in_plane(self, R: float, models: np.ndarray) -> np.ndarray:
        """[..., 2] positions of models, relative to the mean of the true models."""
        return np.asarray((models - self.truth(R).mean(0)) @ self.plane)


@dataclass(frozen=True)
class Standing:
    """The state of a run after a round."""

    round: int
    models: np.ndarray  # [N, d] the clients' models, without their biases
    shared: np.ndarray | None  # [d] the shared model, where there is one
    errors: np.ndarray  # [N] squared distance of each client's model from its true model

    @property
    def error(self) -> float:
        return float(self.errors.mean())


def untrained(R: float) -> Standing:
    """Where every run starts: at zero."""
    truth = example().truth(R)
    return Standing(0, np.zeros_like(truth), np.zeros(truth.shape[1]), (truth**2).sum(1))


@cache
def example() -> Example:
    raw = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    lambdas = tuple(raw["lambdas"])
    curves = tuple(Curve(lambdas=lambdas, **{**curve, "errors": tuple(curve["errors"])}) for curve in raw["curves"])
    center, directions = np.array(raw["center"]), np.array(raw["directions"])
    return Example(raw["command"], curves, center, directions)


def text(stop: Stop) -> str:
    """The stop as it is written in an address."""
    return f"{stop:g}" if isinstance(stop, float) else stop
