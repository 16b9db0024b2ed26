"""Even subsampling that keeps both ends, so that figures stay small."""

import numpy as np


def evenly(count: int, limit: int) -> np.ndarray:
    """Choose at most ``limit`` of 0 ... count - 1, ascending, with both ends if ``limit`` is at least 2."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(int))
