"""The subject of an analysis: a run's data, method and stored models, loaded as the run had them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.algorithms import Algorithm, special_forward, stores_outputs
from engine.config.schema import RunConfig
from engine.core.errors import Unsupported
from engine.core.params import SharedParams
from engine.simulation.simulate import Models, Simulation
from engine.task import Predictor, Task

Progress = Callable[[float], None]


def unwatched(share: float) -> None:
    """A progress callback that does nothing."""


@dataclass(frozen=True)
class Subject:
    """A finished run. ``progress(share)`` takes the share of the work done, from 0 to 1, and may raise to stop it."""

    config: RunConfig
    task: Task
    algorithm: Algorithm
    models: Models  # of round ``round``, on the task's device
    round: int
    progress: Progress = unwatched

    @classmethod
    def load(
        cls,
        config: RunConfig,
        models: Models,
        round: int,
        *,
        data_dir: Path | None = None,
        progress: Progress = unwatched,
    ) -> "Subject":
        """Loads and partitions the run's data again. Raises DataUnavailable if it is gone."""

        def alive(*_: object) -> None:
            progress(0.0)

        simulation = Simulation(config, data_dir=data_dir, tick=alive, progress=alive)
        on_device = _to_device(models, simulation.task.device)
        return cls(config, simulation.task, simulation.algorithm, on_device, round, progress)

    @property
    def personalized(self) -> Predictor:
        """The stored models of all clients, with the method's way to predict."""
        models, forward = self.models.personalized, special_forward(self.algorithm, self.task.model)
        if self.models.is_common:
            return Predictor(models[0], is_per_client=False, forward=forward)
        stacked = {n: torch.stack([p[n] for p in models]) for n in models[0]}
        return Predictor(stacked, is_per_client=True, forward=forward)

    def network_of(self, client: int) -> SharedParams:
        """The personalized model of a client. Raises Unsupported for methods whose clients have several networks."""
        own = self.models.personalized[client]
        if any(own[n].shape != p.shape for n, p in self.models.initial.items()):
            raise Unsupported(
                "each client's model consists of several networks, and this analysis is of a single one; choose "
                "another analysis, or the run of another method"
            )
        return own

    def movable_network_of(self, client: int) -> SharedParams:
        """``network_of``, for analyses that move its weights. Raises Unsupported also if stored outputs must follow."""
        if stores_outputs(self.algorithm):
            raise Unsupported(
                "each client's model predicts with stored features, which would have to be computed again wherever "
                "this analysis moves the weights; choose another analysis, or the run of another method"
            )
        return self.network_of(client)

    @property
    def global_model(self) -> Predictor | None:
        """The stored global model or models; None if the method has none."""
        params = self.models.global_model
        return None if params is None else Predictor(params, self.models.is_global_per_client)


def _to_device(models: Models, device: torch.device) -> Models:
    """Moves models to the device; one model shared by all clients stays one."""
    shared = None if models.global_model is None else _to(models.global_model, device)
    if shared is not None and models.is_common:
        personalized = [shared] * len(models.personalized)
    else:
        personalized = [_to(params, device) for params in models.personalized]
    return Models(_to(models.initial, device), shared, personalized)


def _to(params: SharedParams, device: torch.device) -> SharedParams:
    return {n: p.to(device) for n, p in params.items()}
