"""Fewer of many, so that a figure stays light: evenly chosen, both ends among them."""

import numpy as np


def evenly(count: int, most: int) -> np.ndarray:
    """At most ``most`` of 0 ... count - 1, ascending; with the first and the last where ``most`` is 2 or more."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
