"""Confidence intervals and rankings: what a few runs show about which method is best.

The unit is a block: a split of the data (``splits``), whose seeds are averaged first, or else a seed, which determines
data, split, initial model and batches. The methods of a block share all of these, so methods are compared within blocks
and only the differences are averaged:

    d_b = a_b - b_b         d +- t_{n-1} s_d / sqrt(n)         n blocks, s_d the sample deviation of d_1 .. d_n

The factor depends on the degrees of freedom: 12.71 for two blocks, 4.30 for three, 2.26 for ten. Clients of one
training are not blocks: an interval over clients is only about these clients and these trainings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan, sqrt

import numpy as np
from jaxtyping import Float
from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
MIN_BLOCKS = 3  # with fewer, no best method is named, even if the interval excludes 0
ROUNDING = 1e-6  # accuracies are stored in single precision: smaller differences count as none


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval. ``n`` is the number of values."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def is_above_zero(self) -> bool:
        return self.low > ROUNDING

    def is_within(self, half_width: float) -> bool:
        """Whether the interval is within ``half_width`` of 0."""
        return -half_width <= self.low and self.high <= half_width


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


def t_interval(values: Float[np.ndarray, "n"], confidence: float = CONFIDENCE) -> Interval:
    """The interval of the mean of independent values. With one value it is (-inf, inf)."""
    n = len(values)
    if n == 0:
        return Interval(nan, -inf, inf, 0)
    mean = float(values.mean())
    if n == 1:
        return Interval(mean, -inf, inf, 1)
    half = float(_factor(confidence, n - 1) * values.std(ddof=1) / sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def t_test_p(values: Float[np.ndarray, "n"]) -> float:
    """The two-sided p-value of a mean of 0: at most 1 - c where the interval with confidence c excludes 0.

    NaN with fewer than two values.
    """
    n = len(values)
    if n < 2:
        return nan
    mean, error = abs(float(values.mean())), float(values.std(ddof=1) / sqrt(n))
    if error == 0:
        return float(mean <= ROUNDING)
    return 2 * float(stdtr(n - 1, -mean / error))


def interval_over_clients(trainings: Sequence[Float[np.ndarray, "_"]], confidence: float = CONFIDENCE) -> Interval:
    """The interval of the mean over trainings of the mean over clients, as if only the clients were random.

    Each training has the paired differences of its clients; the degrees of freedom are Welch-Satterthwaite's. The
    variation between trainings is not included.
    """
    n = sum(len(own) for own in trainings)
    if not n or any(len(own) < 2 for own in trainings):
        return Interval(float(np.mean([own.mean() for own in trainings])) if n else nan, -inf, inf, n)
    parts = [own.var(ddof=1) / len(own) / len(trainings) ** 2 for own in trainings]
    variance, mean = float(sum(parts)), float(np.mean([own.mean() for own in trainings]))
    if variance == 0:
        return Interval(mean, mean, mean, n)
    freedom = variance**2 / sum(part**2 / (len(own) - 1) for part, own in zip(parts, trainings, strict=True))
    half = _factor(confidence, freedom) * sqrt(variance)
    return Interval(mean, mean - half, mean + half, n)


def rank_methods(
    values: Float[np.ndarray, "blocks methods"], is_higher_better: bool = True, confidence: float = CONFIDENCE
) -> StatisticalRanking:
    """Ranks methods; NaN where a method was not run in a block.

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


@lru_cache(maxsize=1000)
def _factor(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t distribution."""
    return -float(stdtrit(freedom, (1 - confidence) / 2))  # scipy.stats.t.isf, which takes a second to import


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]
