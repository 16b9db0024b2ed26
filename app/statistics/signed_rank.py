"""Wilcoxon's signed-rank test: whether paired differences are centered on 0.

Wilcoxon. Individual comparisons by ranking methods. Biometrics Bulletin 1945. Zero differences are left out, and equal
sizes share the mean of their ranks. R+ and R- are the sums of the ranks of positive and negative differences.
"""

from math import erfc, nan, sqrt

import numpy as np
from scipy.special import bdtr

from app.statistics.intervals import ROUNDING

EXACT_UP_TO = 50  # differences up to which every assignment of signs is counted


def rank_sums(differences: np.ndarray) -> tuple[float, float]:
    """R+ and R-."""
    known = _unequal(differences)
    ranks = mean_ranks(np.abs(known))
    return float(ranks[known > 0].sum()), float(ranks[known < 0].sum())


def signed_rank_p(differences: np.ndarray) -> float:
    """The two-sided p-value; 1 if no difference is left.

    Exact, ties or not, up to EXACT_UP_TO differences; beyond that the normal approximation with these ranks' variance.
    """
    known = _unequal(differences)
    ranks = mean_ranks(np.abs(known))
    positive = ranks[known > 0].sum()
    if len(known) > EXACT_UP_TO:
        z = (positive - ranks.sum() / 2) / sqrt((ranks**2).sum() / 4)
        return erfc(abs(z) / sqrt(2))
    doubled = (2 * ranks).round().astype(int)  # shared ranks are halves
    ways = np.zeros(doubled.sum() + 1)
    ways[0] = 1
    for rank in doubled:  # each difference is positive, and adds its rank, or negative
        ways[rank:] += ways[: len(ways) - rank].copy()
    at = round(2 * positive)
    tail = min(ways[: at + 1].sum(), ways[at:].sum()) / ways.sum()
    return float(min(1.0, 2 * tail))


def effect(differences: np.ndarray) -> float:
    """The rank-biserial correlation r = (R+ - R-) / (R+ + R-), from -1 to 1; NaN if no difference is left."""
    positive, negative = rank_sums(differences)
    return (positive - negative) / (positive + negative) if positive + negative else nan


def sign_test_p(positive: int, negative: int) -> float:
    """The two-sided p-value of so many positive and negative differences, if both signs are equally likely."""
    n = positive + negative
    return min(1.0, 2 * float(bdtr(min(positive, negative), n, 0.5))) if n else 1.0


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """1 for the smallest; values closer than ROUNDING to the next smaller one share the mean of their ranks."""
    order = np.argsort(values, kind="stable")
    starts = np.diff(values[order], prepend=-np.inf) > ROUNDING
    group = np.cumsum(starts) - 1
    shared = np.bincount(group, np.arange(1, len(values) + 1)) / np.bincount(group)
    ranks = np.empty(len(values))
    ranks[order] = shared[group]
    return ranks


def _unequal(differences: np.ndarray) -> np.ndarray:
    known = differences[np.isfinite(differences)]
    return known[np.abs(known) > ROUNDING]
