"""Which of two results is higher, in words that say so where neither is."""

from collections.abc import Sequence

import numpy as np

CLEAR = 2.0  # standard errors of the paired difference
LEAST = 0.01  # a point: less than that is not seen in whole percents
NEAR = 0.05  # of two single numbers, as a share of the larger

HIGHER, LEVEL, LOWER = 1, 0, -1


def side(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Which of two results over the same seeds or draws [n] is higher, by their paired
    differences; none if less than a point apart."""
    gaps = np.asarray(ours) - np.asarray(theirs)
    spread = CLEAR * float(gaps.std(ddof=1)) / len(gaps) ** 0.5
    return int(np.sign(gaps.mean())) if abs(gaps.mean()) > max(spread, LEAST) else LEVEL


def side_of_two(ours: float, theirs: float) -> int:
    """The same of two single numbers."""
    return int(np.sign(ours - theirs)) if abs(ours - theirs) > NEAR * max(abs(ours), abs(theirs)) else LEVEL


def word(side: int, words: Sequence[str] = ("beats", "is level with", "loses to")) -> str:
    """One of three words: for higher, level and lower."""
    return words[LEVEL - side + 1]
