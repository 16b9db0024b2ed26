"""What an analysis looks at: a run's data, method and stored models, put together again as the run had them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.algorithms import Algorithm, special_forward
from engine.config import RunConfig
from engine.ops import SharedParams
from engine.simulate import Models, Simulation
from engine.task import Predictor, Task

Progress = Callable[[float], None]


def unwatched(share: float) -> None:
    """Nobody waits for the progress."""


@dataclass(frozen=True)
class Subject:
    """A finished run. ``progress(share)`` tells how much of the work is done, from 0 to 1, and may raise to stop it."""

    config: RunConfig
    task: Task
    algorithm: Algorithm
    models: Models  # of round ``round``, on the task's device
    round: int
    progress: Progress = unwatched

    @classmethod
    def load(
        cls, config: RunConfig, models: Models, round: int, *, data_dir: Path | None = None,
        progress: Progress = unwatched,
    ) -> "Subject":
        """Loads and partitions the run's data again. Raises DataUnavailable where it is gone."""
        simulation = Simulation(config, data_dir=data_dir, tick=lambda: progress(0.0))
        device = simulation.task.device
        on_device = Models(
            _to(models.initial, device),
            None if models.global_model is None else _to(models.global_model, device),
            [_to(params, device) for params in models.personalized],
        )
        return cls(config, simulation.task, simulation.algorithm, on_device, round, progress)

    @property
    def personalized(self) -> Predictor:
        """The stored models of all clients, predicting as the method has them predict."""
        stacked = {n: torch.stack([p[n] for p in self.models.personalized]) for n in self.models.personalized[0]}
        return Predictor(stacked, is_per_client=True, forward=special_forward(self.algorithm, self.task.model))

    @property
    def global_model(self) -> Predictor | None:
        """The stored global model, or the one that each client would be given; None where the method has none."""
        params = self.models.global_model
        if params is None:
            return None
        name, initial = next(iter(self.models.initial.items()))
        return Predictor(params, is_per_client=params[name].dim() > initial.dim())


def _to(params: SharedParams, device: torch.device) -> SharedParams:
    return {n: p.to(device) for n, p in params.items()}
