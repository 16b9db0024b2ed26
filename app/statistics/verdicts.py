"""What an interval or a number of splits allows to say, in words.

A method is *ahead* or *behind* only if the t-test of its difference is significant after Holm's correction for all
comparisons made. It is *level* if the interval is within half a point of 0. Otherwise there is *no clear difference*.
"""

from math import isfinite
from typing import Literal

from app.statistics.bayesian import ROPE
from app.statistics.critical_difference import ALPHA
from app.statistics.intervals import MIN_BLOCKS, ROUNDING, Interval
from app.statistics.pairs import Pair
from app.wording import decimals, plural

WIDE = 0.02  # an interval around 0 that is wider than two points says too little
Relation = Literal["ahead", "behind", "level", "unclear"]


def relation(pair: Pair, level: float = ROPE) -> Relation:
    """The relation of a method to another, by their difference over splits."""
    difference = pair.interval
    if difference.n < MIN_BLOCKS:
        return "unclear"
    if difference.is_within(level):
        return "level"
    if pair.t_holm > ALPHA:
        return "unclear"
    if difference.is_above_zero:
        return "ahead"
    return "behind" if difference.high < -ROUNDING else "unclear"


def difference_in_words(pair: Pair, samples: float | None = None) -> str:
    """``Ahead by 2.1 points``, ``Level within half a point`` or ``Between −1.2 and +2.4 points: no clear difference``.

    ``samples`` is the number of test samples behind the mean, which limits the decimals.
    """
    found, difference = relation(pair), pair.interval
    if found == "level":
        return "Level within half a point"
    if found in ("ahead", "behind"):
        return f"{found.capitalize()} by {_points(abs(difference.mean), samples)} points"
    if not isfinite(difference.low):
        return "One split: no interval" if difference.n else "No split in common"
    reach = f"Between {ends(difference, samples)} points"
    if excludes_zero(difference):
        return f"{reach}: not significant after Holm's correction"
    if difference.high - difference.low > WIDE:
        return f"{reach}: too little data to tell"
    return f"{reach}: no clear difference"


def excludes_zero(difference: Interval) -> bool:
    return difference.n >= MIN_BLOCKS and (difference.is_above_zero or difference.high < -ROUNDING)


def ends(interval: Interval, samples: float | None = None) -> str:
    """``−1.2 and +2.4``."""
    digits = min(1, decimals(samples))
    return " and ".join(f"{100 * end + 0.0:+.{digits}f}".replace("-", "−") for end in (interval.low, interval.high))


def blocks_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """The fewest blocks with which a Wilcoxon test can be significant after Holm: 2 / 2^N <= alpha / comparisons."""
    blocks = 1
    while 2 / 2**blocks > alpha / comparisons:
        blocks += 1
    return blocks


def too_few_blocks(blocks: int, methods: int, comparisons: int, alpha: float = ALPHA) -> str:
    """Why Wilcoxon's test cannot be significant for any pair, or nothing if it can."""
    needed = blocks_needed(comparisons, alpha) if comparisons else 0
    if blocks >= needed:
        return ""
    if blocks == 1:
        return "One split: what follows is about these clients, not about the methods."
    few = f"{blocks} splits are too few for Wilcoxon's test to be significant for any pair"
    return f"{few} of {plural(methods, 'method')}: it needs at least {needed}."


def tail_in_words(lowest: float, floor: Interval) -> str:
    """Whether the least accurate clients are lower than chance alone would make them."""
    if not isfinite(floor.low):
        return ""
    return "Below what chance alone explains" if lowest < floor.low else "Not below what chance alone explains"


def _points(size: float, samples: float | None) -> str:
    return f"{100 * size:.{min(1, decimals(samples))}f}"
