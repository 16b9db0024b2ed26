"""Comparisons of pairs of methods over blocks: intervals, t and Wilcoxon's tests, with Holm's correction."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from app.statistics.holm import holm
from app.statistics.intervals import Interval, t_interval, t_test_p
from app.statistics.signed_rank import effect, signed_rank_p


@dataclass(frozen=True)
class Pair:
    """Method ``a`` minus method ``b``, by their columns.

    ``p`` is Wilcoxon's, ``holm`` the same corrected for all pairs of the family, ``t_holm`` that of the t-test which
    belongs to the interval, corrected likewise.
    """

    a: int
    b: int
    interval: Interval
    p: float
    holm: float
    t_holm: float
    effect: float


def all_pairs(values: np.ndarray) -> list[Pair]:
    """[blocks, methods] -> every pair."""
    return compared(values, combinations(range(values.shape[1]), 2))


def to_reference(values: np.ndarray, reference: int) -> list[Pair]:
    """[blocks, methods] -> every other method minus the reference."""
    return compared(values, ((i, reference) for i in range(values.shape[1]) if i != reference))


def compared(values: np.ndarray, family: Iterable[tuple[int, int]]) -> list[Pair]:
    """The pairs of a family, in the blocks that both methods have; p is NaN where there are none."""
    both = list(family)
    differences = [_known(values[:, a] - values[:, b]) for a, b in both]
    p = np.array([signed_rank_p(own) if len(own) else np.nan for own in differences])
    t_holm = holm(np.array([t_test_p(own) for own in differences]))
    return [
        Pair(a, b, t_interval(own), float(raw), float(corrected), float(of_t), effect(own))
        for (a, b), own, raw, corrected, of_t in zip(both, differences, p, holm(p), t_holm, strict=True)
    ]


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]
