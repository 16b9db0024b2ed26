"""A run of FedAvg that stops four times a round, so that a reader sees each phase."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.stories.mini_run import MiniRun
from app.stories.round_phases import AVERAGE, RETURN, SEND, TRAIN
from engine.simulation.sent_models import sent_models

DIGIT = 0  # whose weights are shown
PIXELS = 8


class FirstRoundRun(MiniRun):
    """FedAvg, a phase at a time. ``round`` is the round that is under way."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.phase = AVERAGE  # the last completed one; before round 1 as if a round had ended
        self.accuracies: list[float] = []  # of the shared model on all test images, after every round
        self.bytes_down = self.bytes_up = 0
        self.copies: np.ndarray | None = None  # [N, 8, 8] weights of the clients' copies, once trained
        super().__init__(config)

    @property
    def round(self) -> int:
        return self.averaged + (self.phase != AVERAGE)

    @property
    def value(self) -> float:
        return self.accuracies[-1]

    @property
    def num_clients(self) -> int:
        return self.simulations[0].task.num_clients

    @property
    def shared(self) -> np.ndarray:
        """[8, 8] the shared model's weights for one digit."""
        model = self.simulations[0].models().global_model
        assert model is not None
        return picture(model["head.weight"])

    @property
    def model_bytes(self) -> int:
        """Of one model on its way."""
        sent: int = self.simulations[0].algorithm.shared(self.simulations[0].state).bytes_up
        return sent

    def advance(self, rounds: int) -> None:
        """So many phases, at most to the end."""
        for _ in range(rounds):
            if self.is_over:
                return
            self._next_phase()

    def _next_phase(self) -> None:
        self.phase = (self.phase + 1) % 4
        if self.phase == SEND:
            self.bytes_down += self.num_clients * self.model_bytes
        elif self.phase == TRAIN:
            self.copies = picture(sent_models(self.simulations[0])["head.weight"])
        elif self.phase == RETURN:
            self.bytes_up += self.num_clients * self.model_bytes
        else:
            self._next()

    def _next(self) -> None:
        super()._next()
        self.accuracies.append(self.results[0].scalars["global.weighted_mean"])


def picture(weights: Any) -> np.ndarray:
    """[..., C, 64] -> [..., 8, 8] the weights of one digit."""
    own = weights[..., DIGIT, :].double().cpu().numpy()
    return np.asarray(own.reshape(*own.shape[:-1], PIXELS, PIXELS))
