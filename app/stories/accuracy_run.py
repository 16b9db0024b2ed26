"""A run that reports each client's test accuracy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories.mini_run import rounds
from app.stories.shared_steps import Run


@dataclass(frozen=True)
class AccuracyStep:
    """One or more methods side by side on the same clients, after a round."""

    round: int
    accuracies: list[np.ndarray]  # [N] for each method, in the order of the configuration: of the client's own model
    is_settled: bool

    @property
    def value(self) -> float:
        """The first method's mean over the clients."""
        return float(self.accuracies[0].mean())


AccuracyRun = Run[AccuracyStep]


def steps(config: Mapping[str, Any]) -> Iterator[AccuracyStep]:
    for trained in rounds(config):
        accuracies = [result.arrays["personalized.accuracy"] for result in trained.results]
        yield AccuracyStep(trained.round, accuracies, trained.is_over)
