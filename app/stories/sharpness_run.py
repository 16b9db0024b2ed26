"""FedAvg and FedSAM side by side on the same clients: the lowest clients, and the loss around each model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from app.stories.mini_run import MiniRun
from app.stories.sharpness_curve import STEPS, Standing
from engine.analyses.support.directions import filter_normalised, gaussian
from engine.simulation.simulate import Simulation
from engine.training.evaluate import training_losses

DIRECTION_SEED = 7


class SharpnessRun(MiniRun):
    """FedAvg, and FedSAM where the reader's radius is not 0."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.scores: list[tuple[float, float]] = []  # mean and lowest 5 % of the reader's radius, after every round
        super().__init__(config)

    @property
    def value(self) -> float:
        return self.scores[-1][1]

    def standing(self) -> Standing:
        """The models as they are now; the sections cost more than a round does."""
        accuracies = [result.arrays["personalized.accuracy"] for result in self.results]
        sections = [section(simulation) for simulation in self.simulations]
        return Standing(*(np.stack([own[0], own[-1]]) for own in (accuracies, sections)))

    def _next(self) -> None:
        super()._next()
        last = self.results[-1].scalars
        self.scores.append((last["personalized.mean"], last["personalized.lowest5"]))


def section(simulation: Simulation) -> np.ndarray:
    """[steps] mean loss of the global model, moved along one filter-normalized direction: the same for every model."""
    w = simulation.models().global_model
    assert w is not None  # FedAvg and FedSAM have one
    direction = filter_normalised(gaussian(w, DIRECTION_SEED, 0), w)
    moved = {n: torch.stack([p + step * direction[n] for step in STEPS.tolist()]) for n, p in w.items()}
    losses = training_losses(simulation.task, moved)
    return np.asarray((simulation.task.weights[:, None] * losses).sum(0).double().cpu().numpy())
