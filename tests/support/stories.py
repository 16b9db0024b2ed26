"""Runs of stories that share nothing, and the simulations behind them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from app.stories import dial_run, mini_run
from app.stories.dial_run import DialStep
from app.stories.shared_steps import Run, SharedSteps, StepT
from engine.simulation.simulate import Simulation


def run_of(steps: Iterator[StepT]) -> Run[StepT]:
    """A run of these steps, at the first."""
    return Run(SharedSteps(lambda: steps))


def simulations_of(steps: Iterator[Any]) -> list[Simulation]:
    """The simulations that these steps train, at round 0."""
    made: list[Simulation] = []

    def make(*args: Any) -> Simulation:
        made.append(Simulation(*args))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mini_run, "Simulation", make)
        next(steps)
    return made


def last_step(config: Mapping[str, Any], *labels: str) -> DialStep:
    """The last step of a run of these methods. Only this step is evaluated, as in the runs that ship."""
    methods = [entry for entry in config["algorithms"] if entry["label"] in labels]
    *_, last = dial_run.counted(
        {**config, "algorithms": methods, "evaluation": {"every": config["training"]["rounds"]}}
    )
    return dial_run.step_of(*last)
