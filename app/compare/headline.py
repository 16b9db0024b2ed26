"""The finding in one sentence, computed: who leads on the mean, who serves its worst clients best, and is it noise?"""

from dataclasses import dataclass

import pandas as pd

from app.wording import names, percent

MOST_VALUES = 6  # in one sentence


@dataclass(frozen=True)
class Lead:
    """The first of a ranking, how far ahead of the second it is (a fraction), and whom it cannot be told from.

    Two methods are level if their distance is no more than its deviation over seeds. ``within`` is the distance to the
    farthest of those.
    """

    first: str
    gap: float
    level_with: tuple[str, ...]
    within: float

    @property
    def is_clear(self) -> bool:
        return not self.level_with


def lead(runs: pd.DataFrame, column: str) -> Lead:
    """[method, seed, mean, lowest, ...], two methods at least -> who is first in ``column``, and by how much.

    Methods of the same seeds are compared seed by seed, because they share data, start and batches.
    """
    ranked = runs.groupby("method", sort=False)[column].mean().sort_values(ascending=False, kind="stable")
    first, *others = ranked.index
    table = runs.pivot_table(index="seed", columns="method", values=column)
    level = tuple(other for other in others if _are_level(table, first, other))
    within = float(ranked[first] - ranked[list(level)].min()) if level else 0.0
    return Lead(first, float(ranked.iloc[0] - ranked.iloc[1]), level, within)


def headline(runs: pd.DataFrame, share: float) -> str:
    """``CGPFL K=4 leads by 3.2 points on the mean; LocalTrain's lowest 5 % are best.``"""
    if runs["method"].nunique() < 2:
        only = runs.iloc[0]["method"] if len(runs) else "No method"
        return f"{only} alone has numbers here; add a second method to compare."
    mean, tail = lead(runs, "mean"), lead(runs, "lowest")
    worst = f"lowest {100 * share:g} %"
    if mean.is_clear:
        first = f"{mean.first} leads by {_points(mean.gap)} on the mean"
    else:
        level = names([mean.first, *mean.level_with], 2)
        first = f"{level} are level on the mean (within {_points(mean.within, '0.05 points')})"
    if not tail.is_clear:
        second = f"; on the {worst} {names([tail.first, *tail.level_with], 2)} are level"
    elif tail.first == mean.first and mean.is_clear:
        second = f", and its {worst} are best too, by {_points(tail.gap)}"
    else:
        second = f"; {_possessive(tail.first)} {worst} are best, by {_points(tail.gap)}"
    return first + second + (" (one seed)." if runs["seed"].nunique() == 1 else ".")


def by_value(runs: pd.DataFrame) -> str:
    """``Mean accuracy: 81.2 % for α = 0.1, 92.0 % for α = 1.``: of pooled runs nobody leads."""
    means = runs.groupby("method", sort=False)["mean"].mean()
    shown = [f"{percent(value, 1)} for {name}" for name, value in means.items()][:MOST_VALUES]
    rest = f" and {len(means) - MOST_VALUES} more" if len(means) > MOST_VALUES else ""
    return f"Mean accuracy: {', '.join(shown)}{rest}."


def _are_level(table: pd.DataFrame, first: str, other: str) -> bool:
    """[seed, method]; over the seeds that both have, or by their means where they share no two."""
    gaps = (table[first] - table[other]).dropna()
    gap = float(gaps.mean()) if len(gaps) else float(table[first].mean() - table[other].mean())
    return gap <= (float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0)


def _points(gap: float, least: str = "less than 0.05 points") -> str:
    if gap < 0.0005:
        return least
    text = f"{100 * gap:.1f}"
    return f"{text} point" if text == "1.0" else f"{text} points"


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"
