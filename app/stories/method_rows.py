"""The methods of a story as rows: mean and lowest 5 % of the clients, as shipped and of the reader's run."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from app.components.moving_figure import Picture, still
from app.stories.dial_example import DialExample, load
from app.stories.dial_run import DialRun
from app.stories.figures import row_ends
from app.wording import percent, percent_pm

WHAT = MEAN, LOWEST = "mean", "lowest 5 %"


def line(method: str, what: str) -> str:
    """The name of a line of the shipped results."""
    return f"{method}, {what}"


def values(there: DialExample, method: str, stop: str, what: str = MEAN) -> np.ndarray:
    """[seeds]"""
    return there.values_at(line(method, what), stop)


def pm(there: DialExample, method: str, stop: str, what: str = MEAN) -> str:
    """``85 ± 1 %``: in whole percent, because each client has few test samples."""
    return percent_pm(*there.at(line(method, what), stop), samples=100)


def source(there: DialExample, rounds: int) -> str:
    """Where the gray marks come from."""
    return (
        f"Gray marks are example results on real digits of 8 x 8 pixels that ship with Fedscape, after {rounds} "
        f"rounds: means over {there.over}, computed by `{there.command}`; lines: ± one standard deviation over the "
        "seeds."
    )


def standing(methods: Sequence[str], shown: Sequence[str], run: DialRun | None) -> str:
    """``This run, round 12: FedAvg at 80 % · Ditto at 88 %``, of the ``shown`` methods."""
    if run is None:
        return "This run: press Play"
    means = dict(zip(methods, run.now.scores, strict=True))
    words = " · ".join(f"{method} at {percent(means[method][0], 0)}" for method in shown)
    return f"This run, round {run.round}: {words}"


def picture(name: str, methods: Sequence[str], stop: str, run: DialRun | None, *, alt: str, now: str) -> Picture:
    """``name`` of the shipped results, whose methods are the rows."""
    scores = dict(enumerate(run.now.scores)) if run else {}
    return Picture(
        _still_rows(name, tuple(methods), stop),
        row_ends.moving(WHAT, scores),
        key="dial_figure",
        alt=alt,
        name=name.replace("_", "-"),
        title="Accuracy of the clients",
        now=now,
    )


@still
def _still_rows(name: str, methods: tuple[str, ...], stop: str) -> go.Figure:
    there = load(name)
    ends = {what: [there.at(line(method, what), stop) for method in methods] for what in WHAT}
    return row_ends.figure(methods, ends, "accuracy on own test images, %", seeds=len(there.seeds))
