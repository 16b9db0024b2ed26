"""The story of one dial: how much should clients share?

Ten clients, ten true models, R apart. One-stage FedProx trains a model for each and pulls it towards the common one
with strength lambda: at one end everybody learns alone, at the other all share one model. The curves of where each
setting ends are computed beforehand and ship with the product (``benchmarks/lambda_dial.py``); the run itself is live.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLE = Path(__file__).resolve().parents[2] / "assets" / "examples" / "lambda_dial.json"

ALONE, ADAPTIVE, TOGETHER = "alone", "adaptive", "together"
Dial = float | str
"""A lambda, or one of the three names."""

SPREADS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
LAMBDAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
SEED = 3
ROUNDS = 1500


@dataclass(frozen=True)
class Curve:
    """Where runs on clients of one spread end: mean squared distance of each client's model to its truth."""

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

    def lam_of(self, R: float, dial: Dial) -> float | None:
        """The lambda that the dial stands for; None where all share one model."""
        if isinstance(dial, float):
            return dial
        return {ALONE: 0.0, ADAPTIVE: self.curve(R).adaptive_lam, TOGETHER: None}[dial]

    def goal(self, R: float, dial: Dial) -> float:
        """The error at which a run with this setting ends."""
        curve = self.curve(R)
        if isinstance(dial, float):
            return curve.errors[curve.lambdas.index(dial)]
        return {ALONE: curve.alone, ADAPTIVE: curve.adaptive, TOGETHER: curve.together}[dial]

    @cached_property
    def plane(self) -> np.ndarray:
        """[d, 2] the plane in which the true models lie furthest apart."""
        axes = np.linalg.svd(self.directions - self.directions.mean(0))[2][:2]
        return np.asarray(axes.T)

    def in_plane(self, R: float, models: np.ndarray) -> np.ndarray:
        """[..., 2] where models lie, seen from the middle of the truths."""
        return np.asarray((models - self.truth(R).mean(0)) @ self.plane)


@dataclass(frozen=True)
class Standing:
    """Where a run stands after a round."""

    round: int
    models: np.ndarray  # [N, d] the clients' models, without their biases
    shared: np.ndarray | None  # [d] the common model, where there is one
    errors: np.ndarray  # [N] squared distance of each client's model to its truth

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


def stops(R: float) -> dict[str, Dial]:
    """All places of the dial in order, by the text that stands for them; the adaptive one where it lies for ``R``."""
    adaptive = example().curve(R).adaptive_lam
    below = [lam for lam in LAMBDAS if lam < adaptive]
    places: tuple[Dial, ...] = (ALONE, *below, ADAPTIVE, *LAMBDAS[len(below) :], TOGETHER)
    return {text(place): place for place in places}


def text(dial: Dial) -> str:
    """As it stands in an address."""
    return f"{dial:g}" if isinstance(dial, float) else dial


def method(dial: Dial) -> dict[str, Any]:
    """The entry of the configuration for a place of the dial."""
    if dial == ALONE:
        return {"name": "local_train", "label": "Alone"}
    if dial == TOGETHER:
        return {"name": "fedavg", "label": "Together"}
    if dial == ADAPTIVE:
        return {"name": "fedprox_onestage", "label": "Adaptive λ"}
    return {"name": "fedprox_onestage", "lam": dial, "label": f"λ = {dial:g}"}


def config(R: float, *dials: Dial, every: int = ROUNDS) -> Mapping[str, Any]:
    """An experiment over these places of the dial."""
    return {
        "name": f"The λ dial, R = {R:g}",
        "dataset": {"name": "synthetic", "num_clients": 10, "samples_per_client": 250, "dim": 10, "R": R},
        "partition": {"name": "natural", "test_fraction": 0.2},
        "model": {"name": "logistic", "init": "zeros"},
        "training": {"rounds": ROUNDS, "local_steps": 10, "batch_size": "full", "lr": 0.15, "momentum": 0.9},
        "algorithms": [method(dial) for dial in dials],
        "seeds": [SEED],
        "evaluation": {"every": every},
        "device": "cpu",
    }  # fmt: skip


def comparison(R: float, dial: Dial) -> Mapping[str, Any]:
    """The same question as an experiment of one's own: both ends, the adaptive choice and the reader's."""
    return config(R, *dict.fromkeys((ALONE, dial, ADAPTIVE, TOGETHER)), every=10)


@dataclass(frozen=True)
class Scene:
    """A step of the story: where the dials stand, and what to see there."""

    title: str
    R: float
    dial: Dial
    text: str  # may name {alone}, {together} and {goal}

    def told(self) -> str:
        curve = example().curve(self.R)
        numbers = {"alone": curve.alone, "together": curve.together, "goal": example().goal(self.R, self.dial)}
        return self.text.format(**{name: f"{value:.2f}" for name, value in numbers.items()})


SCENES = (
    Scene("Alike, alone", 0.0, ALONE,
          "All ten clients have the same truth, the one ring, and each learns from its own 200 samples. Watch the dots "
          "run past it: every model chases the noise of its own data, and the error stays at {alone}."),
    Scene("Alike, together", 0.0, TOGETHER,
          "The same clients share one model. The noise averages out over 2,000 samples: {goal} instead of {alone}."),
    Scene("Different, together", 3.0, TOGETHER,
          "Now the truths lie far apart. One model for all sits in their middle and is nobody's own: {goal}, worse "
          "than the {alone} of learning alone."),
    Scene("In between", 1.0, 0.1,
          "Somewhat different clients do best in between, pulled towards the common model yet not onto it: {goal}, "
          "against {alone} alone and {together} together."),
    Scene("Adaptive", 3.0, ADAPTIVE,
          "Nobody knows the best λ beforehand. The adaptive choice takes it from the number of samples and from how "
          "far the clients lie apart: {goal} here. Move R and watch the star follow the valley."),
)  # fmt: skip


def scene_at(R: float, dial: Dial) -> Scene | None:
    return next((scene for scene in SCENES if (scene.R, scene.dial) == (R, dial)), None)


def finding(R: float, dial: Dial) -> str:
    """What this place of the dial is worth, against both ends and the best."""
    curve = example().curve(R)
    return (
        f"Here a run ends at {example().goal(R, dial):.2f}. At R = {R:g}, learning alone ends at {curve.alone:.2f}, "
        f"one model for all at {curve.together:.2f}, and the best λ, {curve.best_lam:g}, at {curve.best:.2f}."
    )
