"""An experiment that trains in the page, a few rounds at a time, and pauses in between."""

from collections.abc import Mapping
from typing import Any

from engine.config.schema import parse_experiment
from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation


class MiniRun:
    """The runs of a small experiment side by side, each at the same round."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.simulations = [Simulation(run) for run in parse_experiment(config).runs()]
        self.results: list[RoundResult] = []  # of the last round, one for each run
        self._rounds = [simulation.rounds() for simulation in self.simulations]
        self._next()

    @property
    def averaged(self) -> int:
        """The last completed round."""
        return self.results[0].round

    @property
    def round(self) -> int:
        return self.averaged

    @property
    def is_over(self) -> bool:
        """Whether all rounds are trained, or a run diverged."""
        has_diverged = any(result.diverged for result in self.results)
        return has_diverged or self.averaged >= self.simulations[0].config.training.rounds

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to see."""
        return self.is_over

    def advance(self, rounds: int) -> None:
        """Train some rounds, at most to the end."""
        for _ in range(rounds):
            if self.is_over:
                return
            self._next()

    def _next(self) -> None:
        self.results = [next(rounds) for rounds in self._rounds]
