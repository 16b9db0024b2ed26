"""Even subsampling that keeps both ends, so that figures stay small."""

import numpy as np


def evenly(count: int, most: int) -> np.ndarray:
    """Choose at most ``most`` of 0 ... count - 1, ascending; with the first and the last if ``most`` is at least 2."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
