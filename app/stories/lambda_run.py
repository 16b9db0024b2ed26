"""A run of the lambda dial: the clients' models and their distance from the true models, after every round."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.stories.lambda_curves import Standing, example
from app.stories.mini_run import MiniRun

SETTLED_ROUNDS, SETTLED_SHARE = 60, 0.004


class LambdaRun(MiniRun):
    """One method on clients ``R`` apart, with the errors of all its rounds so far."""

    def __init__(self, config: Mapping[str, Any], R: float) -> None:
        self.R = R
        self.errors: list[float] = []
        super().__init__(config)

    @property
    def value(self) -> float:
        return self.standing.error

    @property
    def is_settled(self) -> bool:
        """At the last round, or once the error hardly moves."""
        recent = self.errors[-SETTLED_ROUNDS:]
        is_flat = len(self.errors) > SETTLED_ROUNDS and max(recent) < min(recent) * (1 + SETTLED_SHARE)
        return is_flat or self.is_over

    def _next(self) -> None:
        super()._next()
        models = self.simulations[0].models()
        truth = example().truth(self.R)
        weights = np.stack([_weights(model) for model in models.personalized])
        shared = None if models.global_model is None else _weights(models.global_model)
        self.standing = Standing(self.round, weights, shared, ((weights - truth) ** 2).sum(1))
        self.errors.append(self.standing.error)


def _weights(model: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(model["head.weight"].double().cpu().numpy()[0])
