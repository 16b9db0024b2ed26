"""Holm's correction for several tests: the chance of any false finding stays below the level.

Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 1979.
"""

import numpy as np


def holm(p: np.ndarray) -> np.ndarray:
    """Adjusted p-values in the order given: the j-th smallest is max over l <= j of min(1, (m - l + 1) p_(l)).

    NaN, a test that was not made, is none of the m tests and stays NaN.
    """
    adjusted = np.full(len(p), np.nan)
    order = [i for i in np.argsort(p, kind="stable") if np.isfinite(p[i])]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * p[order])) if order else []
    return adjusted
