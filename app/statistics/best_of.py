"""The expected best of n trials, from all B of them.

Dodge, Gururangan, Card, Schwartz, Smith. Show Your Work: Improved Reporting of Experimental Results. EMNLP 2019. With
the values v ascending, for n draws with replacement:

    E_n = sum_i v_(i) ((i / B)^n - ((i - 1) / B)^n)
"""

import numpy as np


def expected_best(values: np.ndarray) -> np.ndarray:
    """[B] values -> [B] expected maxima of 1 .. B draws. NaN, a trial that diverged, counts as the worst."""
    B, ascending = len(values), np.sort(_worst_for_nan(values))
    n, i = np.arange(1, B + 1)[:, None], np.arange(1, B + 1)
    return ((i / B) ** n - ((i - 1) / B) ** n) @ ascending


def best_in_order(values: np.ndarray) -> np.ndarray:
    """[B] values -> [B] maxima of the first 1 .. B: for trials that depend on those before. NaN counts as the worst."""
    return np.maximum.accumulate(_worst_for_nan(values))


def chance_to_meet(share: float, draws: int) -> float:
    """The chance that at least one of so many independent draws falls into the best ``share`` of a space."""
    return 1 - (1 - share) ** draws


def _worst_for_nan(values: np.ndarray) -> np.ndarray:
    known = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, known.min() if len(known) else np.nan)
