"""The styles of compared methods: each has its own style, in a color that is distinct from all others."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from app.charts.plot.palette import MethodStyle, Tone, all_tones, apart, is_dark, style_of, tones
from app.data.comparison import REFERENCES
from app.data.method_labels import labels
from storage import RunRecord

APART = 10.0  # in CIELAB, also for color-blind readers: thirteen colors are distinguishable at this distance
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class Look:
    color: str
    dash: str
    symbol: str


def looks(methods: pd.DataFrame) -> dict[str, Look]:
    """[method, algorithm] -> the look of every method, independent of the order of the rows.

    Each method gets the first of its own color, its shades and all other colors that is at least APART from all colors
    given before, or else the farthest one. References come first, then methods by name and by the numbers in it.
    Settings of one algorithm also differ in dash.
    """
    settings: dict[str, list[str]] = defaultdict(list)
    for method, algorithm in methods[["method", "algorithm"]].drop_duplicates().itertuples(index=False):
        settings[algorithm].append(method)
    found: dict[str, Look] = {}
    taken: list[Tone] = []
    for algorithm in sorted(settings, key=lambda name: (name not in REFERENCES, name)):
        own, style = sorted(settings[algorithm], key=_by_numbers), style_of(algorithm)
        dashes = (style.dash,) if len(own) == 1 else _DASHES
        for i, method in enumerate(own):
            tone = _free(style, taken)
            taken.append(tone)
            found[method] = Look(tone.dark if is_dark() else tone.light, dashes[i % len(dashes)], style.symbol)
    return found


def _free(style: MethodStyle, taken: Sequence[Tone]) -> Tone:
    candidates = [*tones(style), *all_tones()]
    nearest = [min((apart(tone, other) for other in taken), default=APART) for tone in candidates]
    free = (tone for tone, distance in zip(candidates, nearest, strict=True) if distance >= APART)
    return next(free, candidates[nearest.index(max(nearest))])


def looks_of_runs(runs: Sequence[RunRecord]) -> dict[int, Look]:
    """The look of every run's method, by the run's id."""
    names = labels(runs)
    rows = [(names[run.id], run.algorithm) for run in runs]
    look = looks(pd.DataFrame(rows, columns=["method", "algorithm"]))
    return {run: look[name] for run, name in names.items()}


def _by_numbers(name: str) -> list[tuple[bool, float, str]]:
    """λ=0.3 comes before λ=10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(True, float(part), "") if i % 2 else (False, 0.0, part) for i, part in enumerate(parts)]
