"""FedAvg and FedSAM side by side on the same clients: the lowest clients, and the loss around each model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from app.data.once import Once
from app.stories.mini_run import Trained, rounds
from app.stories.shared_steps import Run
from app.stories.sharpness_curve import STEPS, Standing
from engine.analyses.support.directions import filter_normalized, gaussian
from engine.simulation.simulate import Simulation
from engine.task import Task
from engine.training.evaluate import training_losses

DIRECTION_SEED = 7


@dataclass(frozen=True)
class SharpnessStep:
    """FedAvg, and FedSAM where the reader's radius is not 0, after a round."""

    round: int
    accuracies: np.ndarray  # [2, N] FedAvg first
    scores: tuple[float, float]  # mean and lowest 5 % of the reader's radius
    sections: Once[np.ndarray]  # [2, steps] computed where they are drawn, since they cost more than a round does
    is_settled: bool

    @property
    def value(self) -> float:
        return self.scores[1]

    def standing(self) -> Standing:
        return Standing(self.accuracies, self.sections.get())


SharpnessRun = Run[SharpnessStep]


def steps(config: Mapping[str, Any]) -> Iterator[SharpnessStep]:
    for trained in rounds(config):
        accuracies = [result.arrays["personalized.accuracy"] for result in trained.results]
        last = trained.results[-1].scalars
        yield SharpnessStep(
            trained.round,
            np.stack([accuracies[0], accuracies[-1]]),
            (last["personalized.mean"], last["personalized.lowest5"]),
            Once(_sections(trained)),
            trained.is_over,
        )


def _sections(trained: Trained) -> partial[np.ndarray]:
    """Computes the sections of the models after this round, also when the simulations are further on."""
    models = [(simulation.task, global_model(simulation)) for simulation in trained.simulations]
    return partial(_both, models)


def _both(models: list[tuple[Task, dict[str, Tensor]]]) -> np.ndarray:
    own = [section(task, w) for task, w in models]
    return np.stack([own[0], own[-1]])


def global_model(simulation: Simulation) -> dict[str, Tensor]:
    w = simulation.models().global_model
    assert w is not None  # FedAvg and FedSAM have one
    return w


def section(task: Task, w: dict[str, Tensor]) -> np.ndarray:
    """[steps] mean loss of ``w``, moved along one filter-normalized direction: the same for every model."""
    direction = filter_normalized(gaussian(w, DIRECTION_SEED, 0), w)
    moved = {n: torch.stack([p + step * direction[n] for step in STEPS.tolist()]) for n, p in w.items()}
    losses = training_losses(task, moved)
    return np.asarray((task.weights[:, None] * losses).sum(0).double().cpu().numpy())
