"""The costs of a run for charts and tables; bytes up and down are added, in megabytes.

Seconds are measured. Simulated seconds are those of simulated devices, which only runs with ``system`` have: another
axis.
"""

from collections.abc import Mapping
from typing import Literal

import pandas as pd

from engine.core.vocabulary import megabytes

Measured = Literal["megabytes", "gradient_evaluations", "seconds"]
Cost = Literal["megabytes", "gradient_evaluations", "seconds", "simulated_s"]
Axis = Literal["round", Cost]
SIMULATED: Cost = "simulated_s"
SIMULATED_CLOCK = f"diagnostics.{SIMULATED}"  # as a run records it: since its start
AXIS_TITLES = {
    "round": "round",
    "megabytes": "megabytes sent, both ways",
    "gradient_evaluations": "gradient evaluations",
    "seconds": "seconds of training",
    "simulated_s": "simulated seconds",
}
AXIS_CHOICES = {
    "round": "Rounds",
    "megabytes": "Megabytes",
    "gradient_evaluations": "Gradients",
    "seconds": "Seconds",
    "simulated_s": "Simulated seconds",
}
COST_NAMES: tuple[Measured, ...] = ("megabytes", "gradient_evaluations", "seconds")  # of every run
COST_CHOICES: dict[str, str] = {name: title for name, title in AXIS_CHOICES.items() if name != "round"}


def offered(choices: Mapping[str, str], is_simulated: bool) -> dict[str, str]:
    """The choices that runs have; ``is_simulated``: they record simulated seconds."""
    return {name: title for name, title in choices.items() if is_simulated or name != SIMULATED}


def recorded(axis: Axis) -> tuple[str, ...]:
    """The scalars of a round for this axis."""
    if axis == "round":
        return ()
    if axis == SIMULATED:
        return (SIMULATED_CLOCK,)
    return ("bytes_up", "bytes_down") if axis == "megabytes" else (axis,)


def spent(totals: pd.DataFrame) -> pd.DataFrame:
    """[run, <COSTS>] -> [run, megabytes, gradient_evaluations, seconds]."""
    return totals.assign(megabytes=megabytes)[["run", *COST_NAMES]]


def simulated(clock: pd.DataFrame, until: Mapping[int, int]) -> pd.Series:
    """[run, round, value] of the simulated clock -> run -> what it shows after round ``until[run]``."""
    known = clock[clock["round"] <= clock["run"].map(until)].sort_values("round", kind="stable")
    return known.groupby("run")["value"].last().astype(float)
