"""Friedman's test: whether some methods have better ranks than others over blocks.

Friedman. The use of ranks to avoid the assumption of normality. JASA 1937. Iman, Davenport. Approximations of the
critical region of the Friedman statistic. Communications in Statistics 1980. Both as in Demsar. Statistical Comparisons
of Classifiers over Multiple Data Sets. JMLR 2006:

    chi2 = 12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)         F = (N - 1) chi2 / (N (k - 1) - chi2)

With ties chi2 is first divided by 1 - sum (t^3 - t) / (N (k^3 - k)), t the sizes of the groups of equal ranks.
"""

from dataclasses import dataclass
from math import inf, nan

import numpy as np
from scipy.special import fdtrc

from app.statistics.signed_rank import mean_ranks
from engine.core.streams import numpy_stream

DRAWS = 10_000
MIN_BLOCKS, MIN_METHODS = 10, 5  # with fewer of either, F is no good approximation


@dataclass(frozen=True)
class Omnibus:
    """The test of all methods at once. ``p`` is that of F, or of permutations if there are few blocks or methods."""

    mean_ranks: tuple[float, ...]
    chi2: float  # as printed by Demsar, without a correction for ties
    chi2_ties: float  # with it, as scipy.stats.friedmanchisquare
    F: float  # of chi2_ties
    p: float
    is_permuted: bool
    blocks: int


def block_ranks(values: np.ndarray, is_higher_better: bool = True) -> np.ndarray:
    """[blocks, methods] values -> ranks within each block, 1 for the best; only blocks that every method has."""
    complete = values[np.isfinite(values).all(axis=1)]
    return np.array([mean_ranks(-row if is_higher_better else row) for row in complete]).reshape(complete.shape)


def friedman(ranks: np.ndarray) -> Omnibus:
    """[blocks, methods] ranks -> the test. Without two blocks and two methods everything is NaN."""
    n, k = ranks.shape
    if n < 2 or k < 2:
        return Omnibus((nan,) * k, nan, nan, nan, nan, False, n)
    means = ranks.mean(axis=0)
    chi2 = _chi2(means, n)
    ties = 1 - sum(_cubes(row) for row in ranks) / (n * (k**3 - k))
    chi2_ties = chi2 / ties if ties else 0.0
    is_permuted = n < MIN_BLOCKS or k < MIN_METHODS
    F = iman_davenport(chi2_ties, n, k)
    p = permutation_p(ranks) if is_permuted else iman_davenport_p(F, n, k)
    return Omnibus(tuple(map(float, means)), chi2, chi2_ties, F, p, is_permuted, n)


def iman_davenport(chi2: float, blocks: int, methods: int) -> float:
    """F with (k - 1) and (k - 1)(N - 1) degrees of freedom; infinite if all blocks agree."""
    left = blocks * (methods - 1) - chi2
    return (blocks - 1) * chi2 / left if left > 1e-9 else inf


def iman_davenport_p(F: float, blocks: int, methods: int) -> float:
    return float(fdtrc(methods - 1, (methods - 1) * (blocks - 1), F)) if inf > F else 0.0


def permutation_p(ranks: np.ndarray, draws: int = DRAWS) -> float:
    """The share of permutations of the ranks inside blocks with at least this chi2, (hits + 1) / (draws + 1)."""
    stream = numpy_stream(0, "friedman", *ranks.shape)
    n = len(ranks)
    sums = np.zeros((draws, ranks.shape[1]))
    for row in ranks:
        sums += stream.permuted(np.broadcast_to(row, sums.shape), axis=1)
    spread = ((sums / n) ** 2).sum(axis=1)
    hits = (spread >= (ranks.mean(axis=0) ** 2).sum() - 1e-9).sum()  # chi2 is a linear function of this sum
    return float((hits + 1) / (draws + 1))


def _chi2(means: np.ndarray, blocks: int) -> float:
    k = len(means)
    return float(12 * blocks / (k * (k + 1)) * ((means**2).sum() - k * (k + 1) ** 2 / 4))


def _cubes(ranks: np.ndarray) -> float:
    _, sizes = np.unique(ranks, return_counts=True)
    return float((sizes**3 - sizes).sum())
