"""Even subsampling that keeps both ends, so that figures stay small."""

import numpy as np

from app.wording import plural

MAX_MARKS, NUM_QUANTILES = 2000, 201  # clients up to which a figure draws each one, and what it draws of more


def evenly(count: int, limit: int) -> np.ndarray:
    """Choose at most ``limit`` of 0 ... count - 1, ascending, with both ends if ``limit`` is at least 2."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).round().astype(int))


def quantiles(count: int) -> np.ndarray:
    """The ranks to draw of ``count`` clients that are sorted by a value: all of them, or the quantiles 0, 0.5 ... 100 %
    of more than 2,000.
    """
    return np.arange(count) if count <= MAX_MARKS else evenly(count, NUM_QUANTILES)


def quantile_note(count: int, order: str) -> str:
    """`` (201 quantiles of 12 345 clients by difference)`` after an axis title, or nothing if every client is drawn."""
    return "" if count <= MAX_MARKS else f" ({NUM_QUANTILES} quantiles of {plural(count, 'client')} by {order})"
