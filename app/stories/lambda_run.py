"""A run of the lambda dial: the clients' models and their squared distances from the true models, after every round."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories.lambda_curves import Standing, example
from app.stories.mini_run import Trained, rounds
from app.stories.shared_steps import Run

SETTLED_ROUNDS, SETTLED_SHARE = 60, 0.004


@dataclass(frozen=True)
class LambdaStep:
    """One method after a round."""

    standing: Standing
    is_settled: bool  # at the last round, or once the error hardly moves

    @property
    def round(self) -> int:
        return self.standing.round

    @property
    def value(self) -> float:
        return self.standing.error


LambdaRun = Run[LambdaStep]


def steps(config: Mapping[str, Any], R: float) -> Iterator[LambdaStep]:
    """One method on clients ``R`` apart."""
    errors: list[float] = []
    for trained in rounds(config):
        standing = _standing(trained, R)
        errors.append(standing.error)
        yield LambdaStep(standing, is_flat(errors) or trained.is_over)


def is_flat(errors: list[float]) -> bool:
    """Whether the error hardly moved in the last rounds."""
    recent = errors[-SETTLED_ROUNDS:]
    return len(errors) > SETTLED_ROUNDS and max(recent) < min(recent) * (1 + SETTLED_SHARE)


def _standing(trained: Trained, R: float) -> Standing:
    models = trained.simulations[0].models()
    weights = np.stack([_weights(model) for model in models.personalized])
    shared = None if models.global_model is None else _weights(models.global_model)
    return Standing(trained.round, weights, shared, ((weights - example().truth(R)) ** 2).sum(1))


def _weights(model: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(model["head.weight"].double().cpu().numpy()[0])
