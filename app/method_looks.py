"""How each of the compared methods is drawn: its own style, and shades of it for several settings of one method."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from app.comparison import method_name
from app.palette import shades, style_of
from storage import RunRecord

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class Look:
    color: str
    dash: str
    symbol: str


def looks(methods: pd.DataFrame) -> dict[str, Look]:
    """[method, algorithm] -> the look of every method, whatever the order of the rows.

    Settings of one algorithm differ in shade and in dash, in the order of the numbers in their names.
    """
    settings: dict[str, list[str]] = defaultdict(list)
    for method, algorithm in methods[["method", "algorithm"]].drop_duplicates().itertuples(index=False):
        settings[algorithm].append(method)
    found = {}
    for algorithm, own in settings.items():
        style = style_of(algorithm)
        dashes = (style.dash,) if len(own) == 1 else _DASHES
        for i, (method, color) in enumerate(
            zip(sorted(own, key=_by_numbers), shades(algorithm, len(own)), strict=True)
        ):
            found[method] = Look(color, dashes[i % len(dashes)], style.symbol)
    return found


def looks_of_runs(runs: Sequence[RunRecord]) -> dict[int, Look]:
    """The look of every run's method, by the run's id."""
    names = {run.id: method_name(run.label, run.algorithm) for run in runs}
    rows = [(names[run.id], run.algorithm) for run in runs]
    look = looks(pd.DataFrame(rows, columns=["method", "algorithm"]))
    return {run: look[name] for run, name in names.items()}


def _by_numbers(name: str) -> list[tuple[bool, float, str]]:
    """λ=0.3 comes before λ=10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(True, float(part), "") if i % 2 else (False, 0.0, part) for i, part in enumerate(parts)]
