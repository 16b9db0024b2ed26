"""A run that trains in the page, a few rounds at a time, and stands still in between."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.stories import lambda_dial
from app.stories.lambda_dial import Dial, Standing
from engine.config import parse_experiment
from engine.simulate import Simulation

SETTLED_ROUNDS, SETTLED_SHARE = 60, 0.004


class MiniRun:
    """One run of the engine for a spread and a place of the dial, with the errors of all its rounds so far."""

    def __init__(self, R: float, dial: Dial) -> None:
        self.R, self.dial = R, dial
        self._simulation = Simulation(parse_experiment(lambda_dial.config(R, dial)).runs()[0])
        self._rounds = self._simulation.rounds()
        self.errors: list[float] = []
        self.standing = self._next()

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to see: the last round, or an error that hardly moves."""
        recent = self.errors[-SETTLED_ROUNDS:]
        is_flat = len(self.errors) > SETTLED_ROUNDS and max(recent) < min(recent) * (1 + SETTLED_SHARE)
        return is_flat or self.standing.round >= lambda_dial.ROUNDS

    def advance(self, rounds: int) -> None:
        """Train some rounds, at most to the end."""
        for _ in range(min(rounds, lambda_dial.ROUNDS - self.standing.round)):
            self.standing = self._next()

    def _next(self) -> Standing:
        result = next(self._rounds)
        models = self._simulation.models()
        truth = lambda_dial.example().truth(self.R)
        weights = np.stack([_weights(model) for model in models.personalized])
        shared = None if models.global_model is None else _weights(models.global_model)
        standing = Standing(result.round, weights, shared, ((weights - truth) ** 2).sum(1))
        self.errors.append(standing.error)
        return standing


def _weights(model: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(model["head.weight"].double().cpu().numpy()[0])
