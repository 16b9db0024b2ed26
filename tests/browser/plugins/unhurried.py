"""A plugin for the app in the browser tests: it slows down runs that last until a test cancels them.

Their workers would otherwise compute all the time, and the browser would have to wait for a processor.
"""

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from engine.simulation.simulate import Simulation

LEAST_ROUNDS = 50_000
ROUND_S = 0.01


def unhurried(train: Callable[..., Any]) -> Callable[..., Any]:
    def after_a_while(simulation: Simulation, *arguments: Any) -> Any:
        if simulation.config.training.rounds >= LEAST_ROUNDS:
            time.sleep(ROUND_S)
        return train(simulation, *arguments)

    return after_a_while


if multiprocessing.parent_process() is not None:  # in workers only
    Simulation.train = unhurried(Simulation.train)
