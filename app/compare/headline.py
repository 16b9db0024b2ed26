"""The finding in one sentence, computed: who leads on the mean, who serves its worst clients best, and is it noise?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.wording import names


@dataclass(frozen=True)
class Lead:
    """The first of a ranking: how far ahead, as a fraction, and that distance's deviation over seeds (NaN: one)."""

    first: str
    second: str
    gap: float
    deviation: float
    level_with: tuple[str, ...] = ()

    @property
    def is_clear(self) -> bool:
        """The distance is more than its deviation over seeds."""
        return not self.gap <= (0.0 if np.isnan(self.deviation) else self.deviation)


def lead(runs: pd.DataFrame, column: str) -> Lead:
    """[method, seed, mean, lowest, ...], two methods at least -> who is first in ``column``, and by how much.

    Methods of the same seeds are compared seed by seed, because they share data, start and batches.
    """
    ranked = runs.groupby("method", sort=False)[column].mean().sort_values(ascending=False, kind="stable")
    first, second = ranked.index[:2]
    table = runs.pivot_table(index="seed", columns="method", values=column)
    level = tuple(m for m in ranked.index[1:] if not _lead(table, first, m).is_clear)
    found = _lead(table, first, second)
    return Lead(first, second, float(ranked.iloc[0] - ranked.iloc[1]), found.deviation, level)


def headline(runs: pd.DataFrame, share: float) -> str:
    """``CGPFL K=4 leads by 3.2 points on the mean; LocalTrain's lowest 5 % are best.``"""
    if runs["method"].nunique() < 2:
        only = runs.iloc[0]["method"] if len(runs) else "No method"
        return f"{only} alone has numbers here; add a second method to compare."
    mean, tail = lead(runs, "mean"), lead(runs, "lowest")
    worst = f"lowest {100 * share:g} %"
    if not mean.is_clear:
        start = f"{names([mean.first, *mean.level_with], 3)} are level on the mean ({_points(mean.gap)} apart)"
    else:
        start = f"{mean.first} leads by {_points(mean.gap)} on the mean"
    if not tail.is_clear:
        return f"{start}; on the {worst} {names([tail.first, *tail.level_with], 3)} are level."
    if tail.first == mean.first and mean.is_clear:
        return f"{start}, and its {worst} are best too, by {_points(tail.gap)}."
    return f"{start}; {_possessive(tail.first)} {worst} are best, by {_points(tail.gap)}."


def _lead(table: pd.DataFrame, first: str, second: str) -> Lead:
    """[seed, method] -> the distance of two methods over the seeds that both have."""
    gaps = (table[first] - table[second]).dropna()
    deviation = float(gaps.std(ddof=1)) if len(gaps) > 1 else float("nan")
    return Lead(first, second, float(table[first].mean() - table[second].mean()), deviation)


def _points(gap: float) -> str:
    text = f"{100 * gap:.1f}"
    return f"{text} point" if text == "1.0" else f"{text} points"


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"
