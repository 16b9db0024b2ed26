"""Intervals and standings: what a handful of runs can say about which method is best.

The unit is a block. Today a block is a seed, which draws data, split, start and batches; the methods of a block share
all of these, so methods are compared inside blocks and only the differences are averaged:

    d_b = a_b - b_b         d +- t_{n-1} s_d / sqrt(n)         n blocks, s_d the sample deviation of d_1 .. d_n

The factor knows its degrees of freedom: 12.71 for two blocks, 4.30 for three, 2.26 for ten. Clients of one training are
no blocks: they share a training, so an interval over clients speaks of these clients and these trainings only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan, sqrt

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

CONFIDENCE = 0.95
FEWEST_BLOCKS = 3  # with fewer no method is named: even if the interval excluded 0, nothing would check its width
ROUNDING = 1e-6  # accuracies are stored in single precision: smaller differences are none


@dataclass(frozen=True)
class Interval:
    """A mean and where it lies with CONFIDENCE. ``n`` is the number of values behind it."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def is_above_zero(self) -> bool:
        return self.low > ROUNDING

    def is_within(self, half_width: float) -> bool:
        """Whether nothing further from 0 than ``half_width`` is left in it."""
        return -half_width <= self.low and self.high <= half_width


@dataclass(frozen=True)
class Standing:
    """Methods by their means, and how many of them may be the best one.

    ``order`` has their places in the table, best first. ``gaps[i]`` is how far ``order[0]`` is ahead of
    ``order[i + 1]``, in the blocks that both have. ``won`` counts the blocks in which ``order[0]`` is strictly first,
    of ``blocks`` that it shares with every other method.
    """

    order: tuple[int, ...]
    gaps: tuple[Interval, ...]
    may_be_best: int
    won: int
    blocks: int

    @property
    def tied(self) -> tuple[int, ...]:
        """The methods that may be the best one: a beginning of ``order``."""
        return self.order[: self.may_be_best]

    @property
    def is_clear(self) -> bool:
        """Whether the first method is told from every other one."""
        return self.may_be_best == 1

    def is_level(self, half_width: float) -> bool:
        """Whether those that may be best are known to be within ``half_width`` of the first."""
        return self.may_be_best > 1 and all(gap.is_within(half_width) for gap in self.gaps[: self.may_be_best - 1])


def t_interval(values: Float[np.ndarray, "n"], confidence: float = CONFIDENCE) -> Interval:
    """Of the mean of independent values. One value has no interval: it reaches from -inf to inf."""
    n = len(values)
    if n == 0:
        return Interval(nan, -inf, inf, 0)
    mean = float(values.mean())
    if n == 1:
        return Interval(mean, -inf, inf, 1)
    half = float(_factor(confidence, n - 1) * values.std(ddof=1) / sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def interval_over_clients(trainings: Sequence[Float[np.ndarray, "_"]], confidence: float = CONFIDENCE) -> Interval:
    """Of the mean over trainings of the mean over clients, as if only the clients had been drawn.

    Each training gives the paired differences of its clients; degrees of freedom as Welch and Satterthwaite have them.
    How much another training would differ is not in it.
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


def standing(
    values: Float[np.ndarray, "blocks methods"], is_higher_better: bool = True, confidence: float = CONFIDENCE
) -> Standing:
    """Who may be the best of the methods; NaN where a method was not run in a block.

    A method is behind if the interval of its distance to the first excludes 0, and so does that of every method with a
    worse mean. So who may be best is a beginning of the ranking by construction: a method is not left out while a
    worse one stays in. The first alone is left only where its interval to each other method excludes 0; that needs no
    correction for their number, because all have to hold at once.
    """
    if values.shape[1] == 0:
        return Standing((), (), 0, 0, 0)
    signed = values if is_higher_better else -values
    means = np.array([own[np.isfinite(own)].mean() if np.isfinite(own).any() else -inf for own in signed.T])
    order = np.argsort(-means, kind="stable")
    first, others = order[0], order[1:]
    gaps = tuple(t_interval(_known(signed[:, first] - signed[:, other]), confidence) for other in others)
    is_behind = [gap.n >= FEWEST_BLOCKS and gap.is_above_zero for gap in gaps]
    may_be_best = len(order)
    while may_be_best > 1 and is_behind[may_be_best - 2]:
        may_be_best -= 1
    shared = signed[np.isfinite(signed).all(axis=1)]
    ahead = (shared[:, [first]] - shared[:, others] > ROUNDING).all(axis=1)
    return Standing(tuple(map(int, order)), gaps, may_be_best, int(ahead.sum()), len(shared))


@lru_cache(maxsize=1000)
def _factor(confidence: float, freedom: float) -> float:
    """Of Student's distribution, two-sided."""
    return float(student.isf((1 - confidence) / 2, freedom))


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]
