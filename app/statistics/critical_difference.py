"""Nemenyi's critical difference of mean ranks, for the picture of Demsar (JMLR 2006).

Two mean ranks differ if they are more than CD apart:

    CD = q sqrt(k (k + 1) / (6 N)),    q = the upper alpha quantile of the range of k normals / sqrt(2)

Whether a pair is joined depends on the other methods (Benavoli, Corani, Mangili. JMLR 2016), so verdicts on pairs come
from ``app/statistics/pairs.py``.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt

import numpy as np
from scipy.special import ndtr

ALPHA = 0.05
_GRID = np.linspace(-9, 9, 2001)  # the trapezoid rule on it is exact to 1e-12, since the integrand ends at 0
_DENSITY = np.exp(-(_GRID**2) / 2) / sqrt(2 * np.pi) * (_GRID[1] - _GRID[0])


def standard_error(methods: int, blocks: int) -> float:
    """Of the difference of two mean ranks."""
    return sqrt(methods * (methods + 1) / (6 * blocks))


def nemenyi_q(methods: int, alpha: float = ALPHA) -> float:
    return _range_quantile(methods, alpha) / sqrt(2)


def critical_difference(methods: int, blocks: int, alpha: float = ALPHA) -> float:
    """Of all pairs of ``methods``, over so many blocks."""
    return nemenyi_q(methods, alpha) * standard_error(methods, blocks)


def groups(mean_ranks: Sequence[float], width: float) -> list[tuple[int, int]]:
    """The longest runs of methods within ``width``, as (first, last) places of the ascending ``mean_ranks``."""
    found: list[tuple[int, int]] = []
    for first, low in enumerate(mean_ranks):
        last = max(i for i, rank in enumerate(mean_ranks) if rank - low <= width)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def range_tail(width: float, methods: int) -> float:
    """The chance that the range of k standard normals exceeds ``width``: Tukey's distribution, infinite freedom."""
    inside = methods * (_DENSITY * (ndtr(_GRID) - ndtr(_GRID - width)) ** (methods - 1)).sum()
    return float(np.clip(1 - inside, 0, 1))


@lru_cache(maxsize=200)
def _range_quantile(methods: int, alpha: float) -> float:
    low, high = 0.0, 20.0
    for _ in range(60):  # bisection, to the last digit
        middle = (low + high) / 2
        low, high = (middle, high) if range_tail(middle, methods) > alpha else (low, middle)
    return (low + high) / 2
