"""Which of two results is higher, in words that say so if neither is.

It is higher if the mean of the paired differences is more than a point and, as in Compare, their 95 % t interval
excludes 0.
"""

from collections.abc import Sequence

import numpy as np

from app.statistics.intervals import t_interval

MIN_GAP = 0.01  # a point: less than that is not seen in whole percents
NEAR = 0.05  # of two single numbers, as a share of the larger

LEVEL = 0  # 1 is higher, -1 is lower


def side(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Which of two results over the same seeds or draws [n] is higher; neither if less than a point apart."""
    gap = t_interval(np.asarray(ours, float) - np.asarray(theirs, float))
    is_clear = not gap.low <= 0 <= gap.high and abs(gap.mean) > MIN_GAP
    return int(np.sign(gap.mean)) if is_clear else LEVEL


def side_of_two(ours: float, theirs: float, near: float = NEAR) -> int:
    """Like ``side``, for two single numbers."""
    return int(np.sign(ours - theirs)) if abs(ours - theirs) > near * max(abs(ours), abs(theirs)) else LEVEL


def meaning(over: str) -> str:
    """What "clearly" means, over these seeds or draws."""
    return (
        f"the difference is more than one point on average over {over}, and a difference this large is unlikely to be "
        "chance (its 95 % interval excludes 0)"
    )


def word(side: int, words: Sequence[str] = ("beats", "is level with", "loses to")) -> str:
    """One of three words: for higher, level and lower."""
    return words[LEVEL - side + 1]
