"""Rankings of methods by their means over blocks, and how many of them may be the best."""

from dataclasses import dataclass
from math import inf

import numpy as np

from app.statistics.intervals import CONFIDENCE, MIN_BLOCKS, ROUNDING, Interval, t_interval


@dataclass(frozen=True)
class StatisticalRanking:
    """The ranking of methods by their means, and how many of them may be the best.

    ``order`` has their indices in the table, best first. ``gaps[i]`` is the lead of ``order[0]`` over ``order[i + 1]``,
    in the blocks that both have. ``won`` counts the blocks in which ``order[0]`` is strictly first, of the ``blocks``
    that it shares with all other methods.
    """

    order: tuple[int, ...]
    gaps: tuple[Interval, ...]
    may_be_best: int
    won: int
    blocks: int

    @property
    def tied(self) -> tuple[int, ...]:
        """The methods that may be the best: the first ones of ``order``."""
        return self.order[: self.may_be_best]

    @property
    def is_clear(self) -> bool:
        """Whether the first method is significantly better than all others."""
        return self.may_be_best == 1

    def is_level(self, half_width: float) -> bool:
        """Whether the methods that may be the best are known to be within ``half_width`` of the first."""
        return self.may_be_best > 1 and all(gap.is_within(half_width) for gap in self.gaps[: self.may_be_best - 1])


def rank_methods(
    values: np.ndarray, is_higher_better: bool = True, confidence: float = CONFIDENCE
) -> StatisticalRanking:
    """Ranks methods, the columns of ``values``; NaN where a method was not run in a block (a row).

    A method is worse than the first if the interval of their difference excludes 0, and so does that of every method
    with a lower mean. So the methods that may be best are always the first ones of the ranking. The first is named the
    best only if its interval to each other method excludes 0; that needs no correction for multiple comparisons,
    since all have to hold at once. Those that may be best are not corrected for the number of methods: of ten equal
    methods with five seeds, some are left out in a third of the cases.
    """
    if values.shape[1] == 0:
        return StatisticalRanking((), (), 0, 0, 0)
    signed = values if is_higher_better else -values
    means = np.array([own[np.isfinite(own)].mean() if np.isfinite(own).any() else -inf for own in signed.T])
    order = np.argsort(-means, kind="stable")
    first, others = order[0], order[1:]
    gaps = tuple(t_interval(_known(signed[:, first] - signed[:, other]), confidence) for other in others)
    is_behind = [gap.n >= MIN_BLOCKS and gap.is_above_zero for gap in gaps]
    may_be_best = len(order)
    while may_be_best > 1 and is_behind[may_be_best - 2]:
        may_be_best -= 1
    shared = signed[np.isfinite(signed).all(axis=1)]
    ahead = (shared[:, [first]] - shared[:, others] > ROUNDING).all(axis=1)
    return StatisticalRanking(tuple(map(int, order)), gaps, may_be_best, int(ahead.sum()), len(shared))


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]
