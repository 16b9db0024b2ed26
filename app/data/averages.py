"""Averages over the clients that have a value."""

import numpy as np


def mean_of_known(values: np.ndarray) -> np.ndarray:
    """[R, N] -> [R]: the mean over the clients that have a value; NaN if no client has one."""
    known = np.isfinite(values)
    n = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1, dtype=np.float64)
    return np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
