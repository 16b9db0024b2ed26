"""Critical differences of mean ranks, for the picture of Demsar (JMLR 2006).

Two mean ranks differ if they are more than CD apart, with SE = sqrt(k (k + 1) / (6 N)):

    all pairs (Nemenyi)                    CD = q SE,  q = the upper alpha quantile of the range of k normals / sqrt(2)
    with a reference (Bonferroni-Dunn)     CD = q SE,  q = the normal quantile for alpha / (k - 1), two-sided

Whether a pair is joined depends on the other methods (Benavoli, Corani, Mangili. JMLR 2016), so verdicts on pairs come
from ``app/statistics/pairs.py``.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import erfc, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

ALPHA = 0.05
_GRID = np.linspace(-9, 9, 2001)  # the trapezoid rule on it is exact to 1e-12, since the integrand ends at 0
_DENSITY = np.exp(-(_GRID**2) / 2) / sqrt(2 * np.pi) * (_GRID[1] - _GRID[0])


def standard_error(methods: int, blocks: int) -> float:
    """Of the difference of two mean ranks."""
    return sqrt(methods * (methods + 1) / (6 * blocks))


def nemenyi_q(methods: int, alpha: float = ALPHA) -> float:
    return _range_quantile(methods, alpha) / sqrt(2)


def bonferroni_dunn_q(methods: int, alpha: float = ALPHA) -> float:
    return -float(ndtri(alpha / (2 * (methods - 1))))


def critical_difference(methods: int, blocks: int, alpha: float = ALPHA) -> float:
    """Nemenyi's, for all pairs."""
    return nemenyi_q(methods, alpha) * standard_error(methods, blocks)


def critical_difference_to_reference(methods: int, blocks: int, alpha: float = ALPHA) -> float:
    """Bonferroni and Dunn's, for k - 1 comparisons."""
    return bonferroni_dunn_q(methods, alpha) * standard_error(methods, blocks)


def nemenyi_p(mean_ranks: Sequence[float], blocks: int) -> np.ndarray:
    """[k, k] p-values of all pairs, corrected for these."""
    ranks = np.array(mean_ranks)
    apart = np.abs(ranks[:, None] - ranks) / standard_error(len(ranks), blocks) * sqrt(2)
    return np.array([[range_tail(float(value), len(ranks)) for value in row] for row in apart])


def p_to_reference(mean_ranks: Sequence[float], reference: int, blocks: int) -> np.ndarray:
    """[k] two-sided p-values of each method against one of them, not corrected; 1 for that one."""
    ranks = np.array(mean_ranks)
    z = np.abs(ranks - ranks[reference]) / standard_error(len(ranks), blocks)
    return np.array([erfc(float(value) / sqrt(2)) for value in z])


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
