"""The costs of a run for charts and tables; bytes up and down are added, in megabytes."""

from typing import Literal, get_args

import pandas as pd

from engine.core.vocabulary import megabytes

Cost = Literal["megabytes", "gradient_evaluations", "seconds"]
Axis = Literal["round", Cost]
AXIS_TITLES = {
    "round": "round",
    "megabytes": "megabytes sent, both ways",
    "gradient_evaluations": "gradient evaluations",
    "seconds": "seconds of training",
}
AXIS_CHOICES = {
    "round": "Rounds",
    "megabytes": "Megabytes",
    "gradient_evaluations": "Gradients",
    "seconds": "Seconds",
}
COST_NAMES: tuple[Cost, ...] = get_args(Cost)
COST_CHOICES: dict[str, str] = {name: AXIS_CHOICES[name] for name in COST_NAMES}


def recorded(axis: Axis) -> tuple[str, ...]:
    """The scalars of a round for this axis."""
    if axis == "round":
        return ()
    return ("bytes_up", "bytes_down") if axis == "megabytes" else (axis,)


def spent(totals: pd.DataFrame) -> pd.DataFrame:
    """[run, <COSTS>] -> [run, megabytes, gradient_evaluations, seconds]."""
    return totals.assign(megabytes=megabytes)[["run", *COST_NAMES]]
