"""The expected best of n trials, from all B of them.

Dodge, Gururangan, Card, Schwartz, Smith. Show Your Work: Improved Reporting of Experimental Results. EMNLP 2019. With
the values v ascending, for n draws with replacement:

    E_n = sum_i v_(i) ((i / B)^n - ((i - 1) / B)^n)
"""

import numpy as np


def expected_best(values: np.ndarray) -> np.ndarray:
    """[B] values -> [B] expected maxima of 1 .. B draws. NaN, a trial that diverged, counts as the worst."""
    B, known = len(values), values[np.isfinite(values)]
    if not len(known):
        return np.full(B, np.nan)
    ascending = np.concatenate([np.full(B - len(known), known.min()), np.sort(known)])
    n, i = np.arange(1, B + 1)[:, None], np.arange(1, B + 1)
    return ((i / B) ** n - ((i - 1) / B) ** n) @ ascending


def chance_to_meet(share: float, draws: int) -> float:
    """The chance that at least one of so many independent draws falls into the best ``share`` of a space."""
    return 1 - (1 - share) ** draws
