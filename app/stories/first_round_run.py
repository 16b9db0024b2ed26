"""A run of FedAvg in four steps per round, so that a reader sees each phase."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.stories.mini_run import Trained, rounds
from app.stories.round_phases import AVERAGE, RETURN, SEND, TRAIN
from app.stories.shared_steps import Run
from engine.simulation.sent_models import sent_models
from engine.simulation.simulate import Simulation

DIGIT = 0  # whose weights are shown
PIXELS = 8


@dataclass(frozen=True)
class PhaseStep:
    """FedAvg after a phase."""

    round: int  # the current one, also before it is complete
    phase: int  # the last completed one; ``AVERAGE`` before round 1, as after a round
    value: float  # accuracy of the shared model on all test images
    shared: np.ndarray  # [8, 8] the shared model's weights for one digit
    copies: np.ndarray | None  # [N, 8, 8] weights of the clients' copies, once trained
    num_clients: int
    bytes_down: int
    bytes_up: int
    is_settled: bool


FirstRoundRun = Run[PhaseStep]


def steps(config: Mapping[str, Any]) -> Iterator[PhaseStep]:
    step = None
    for trained in rounds(config):
        step = _averaged(trained, step)
        yield step
        if step.is_settled:
            return
        simulation = trained.simulations[0]
        sent_bytes = step.num_clients * model_bytes(simulation)
        step = replace(step, round=step.round + 1, phase=SEND, bytes_down=step.bytes_down + sent_bytes)
        yield step
        step = replace(step, phase=TRAIN, copies=picture(sent_models(simulation)["head.weight"]))
        yield step
        step = replace(step, phase=RETURN, bytes_up=step.bytes_up + sent_bytes)
        yield step


def _averaged(trained: Trained, before: PhaseStep | None) -> PhaseStep:
    model = trained.simulations[0].models().global_model
    assert model is not None
    return PhaseStep(
        trained.round,
        AVERAGE,
        value=trained.results[0].scalars["global.weighted_mean"],
        shared=picture(model["head.weight"]),
        copies=before.copies if before else None,
        num_clients=trained.simulations[0].task.num_clients,
        bytes_down=before.bytes_down if before else 0,
        bytes_up=before.bytes_up if before else 0,
        is_settled=trained.is_over,
    )


def model_bytes(simulation: Simulation) -> int:
    """Bytes of one model that a client sends."""
    sent: int = simulation.algorithm.shared(simulation.state).bytes_up
    return sent


def picture(weights: Any) -> np.ndarray:
    """[..., C, 64] -> [..., 8, 8] the weights of one digit."""
    own = weights[..., DIGIT, :].double().cpu().numpy()
    return np.asarray(own.reshape(*own.shape[:-1], PIXELS, PIXELS))
