"""Confidence intervals of means: what a few runs show about the difference of two methods.

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


def t_interval(values: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """The interval of the mean of independent values. With one value it is (-inf, inf)."""
    n = len(values)
    if n == 0:
        return Interval(nan, -inf, inf, 0)
    mean = float(values.mean())
    if n == 1:
        return Interval(mean, -inf, inf, 1)
    half = float(_factor(confidence, n - 1) * values.std(ddof=1) / sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def t_test_p(values: np.ndarray) -> float:
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


def interval_over_clients(trainings: Sequence[np.ndarray], confidence: float = CONFIDENCE) -> Interval:
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


@lru_cache(maxsize=1000)
def _factor(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t distribution."""
    return -float(stdtrit(freedom, (1 - confidence) / 2))  # scipy.stats.t.isf, which takes a second to import
