"""A run of several methods under a setting that acts on uploads: what clients reach, and whose uploads were used."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from app.stories.mini_run import Trained, rounds
from app.stories.shared_steps import Run


@dataclass(frozen=True)
class DialStep:
    """The methods side by side on the same clients after a round, in the order of the configuration."""

    round: int
    scores: list[tuple[float, float]]  # mean and lowest 5 % over the clients, without malicious ones
    accuracies: list[np.ndarray]  # [n] of these clients
    used: list[np.ndarray]  # [N] in how many rounds the server used a client's upload
    seconds: list[float]  # simulated so far; 0 without devices
    epsilons: list[float]  # so far; infinite without privacy
    is_settled: bool

    @property
    def value(self) -> float:
        """The first method's mean."""
        return self.scores[0][0]


DialRun = Run[DialStep]


def steps(config: Mapping[str, Any]) -> Iterator[DialStep]:
    for trained, used in counted(config):
        yield step_of(trained, used)


def counted(config: Mapping[str, Any]) -> Iterator[tuple[Trained, list[np.ndarray]]]:
    """Every round, and in how many rounds so far the server used each client's upload: [N] for each method."""
    used: list[np.ndarray] = []
    for trained in rounds(config):
        arrived = _arrived(trained)
        used = [before + now for before, now in zip(used, arrived, strict=True)] if used else arrived
        yield trained, used


def step_of(trained: Trained, used: list[np.ndarray]) -> DialStep:
    malicious = trained.simulations[0].task.data.malicious
    is_benign = slice(None) if malicious is None else ~malicious
    return DialStep(
        trained.round,
        [(result.scalars["personalized.mean"], result.scalars["personalized.lowest5"]) for result in trained.results],
        [result.arrays["personalized.accuracy"][is_benign] for result in trained.results],
        used,
        [result.scalars.get("diagnostics.simulated_s", 0.0) for result in trained.results],
        [result.scalars.get("diagnostics.privacy.epsilon", inf) for result in trained.results],
        trained.is_over,
    )


def _arrived(trained: Trained) -> list[np.ndarray]:
    """[N] 1 where the upload was used in this round, where devices are simulated; else 0."""
    nobody = np.zeros(trained.simulations[0].task.num_clients)
    return [result.arrays.get("diagnostics.arrived", nobody) for result in trained.results]
