"""An experiment small enough to train in the page, a round at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.config.schema import parse_experiment
from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation


@dataclass(frozen=True)
class Trained:
    """The runs of an experiment side by side, each after the same round. The simulations go on with the next round."""

    simulations: list[Simulation]
    results: list[RoundResult]  # one for each run

    @property
    def round(self) -> int:
        return self.results[0].round

    @property
    def is_over(self) -> bool:
        """Whether all rounds are trained, or a run diverged."""
        has_diverged = any(result.diverged for result in self.results)
        return has_diverged or self.round >= self.simulations[0].config.training.rounds


def rounds(config: Mapping[str, Any]) -> Iterator[Trained]:
    """Train an experiment; yields at round 0 (untrained) and after every round, to the end."""
    simulations = [Simulation(run) for run in parse_experiment(config).runs()]
    for results in zip(*(simulation.rounds() for simulation in simulations), strict=False):
        trained = Trained(simulations, list(results))
        yield trained
        if trained.is_over:
            return
