"""What an interval, a number of splits or a tail allows to say."""

from math import inf, nan

import pytest

from app.statistics.intervals import Interval
from app.statistics.pairs import Pair
from app.statistics.verdicts import (
    blocks_needed,
    difference_in_words,
    relation,
    tail_in_words,
    too_few_blocks,
)


def pair(interval: Interval, t_holm: float = 0.04) -> Pair:
    return Pair(0, 1, interval, 0.1, 0.2, t_holm, 1.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.010, 0.030, "Ahead by 2.0 points"),
        (-0.030, -0.010, "Behind by 2.0 points"),
        (-0.004, 0.004, "Level within half a point"),
        (0.001, 0.003, "Level within half a point"),
        (-0.012, 0.024, "Between −1.2 and +2.4 points: too little data to tell"),
        (-0.006, 0.009, "Between −0.6 and +0.9 points: no clear difference"),
    ],
)
def test_a_verdict_depends_on_zero_half_a_point_and_two_points(low: float, high: float, expected: str) -> None:
    assert difference_in_words(pair(Interval((low + high) / 2, low, high, 5)), 1000) == expected


def test_a_lead_must_hold_after_the_correction_for_all_comparisons() -> None:
    ahead, behind = pair(Interval(0.02, 0.01, 0.03, 5), 0.06), pair(Interval(-0.02, -0.03, -0.01, 5), 0.06)
    assert relation(ahead) == relation(behind) == "unclear"
    assert difference_in_words(ahead) == "Between +1.0 and +3.0 points: not significant after Holm's correction"
    assert relation(pair(Interval(0.002, 0.001, 0.003, 5), 0.06)) == "level"


def test_two_splits_show_no_leader_even_if_the_interval_excludes_zero() -> None:
    two, three = (relation(pair(Interval(0.2, 0.1, 0.3, n))) for n in (2, 3))
    assert (two, three) == ("unclear", "ahead")


def test_one_split_has_no_interval() -> None:
    assert difference_in_words(pair(Interval(0.2, -inf, inf, 1), nan)) == "One split: no interval"
    assert difference_in_words(pair(Interval(nan, -inf, inf, 0), nan)) == "No split in common"


def test_so_many_blocks_are_needed_for_significance() -> None:
    all_pairs = [blocks_needed(k * (k - 1) // 2) for k in (2, 3, 5, 8, 10, 28)]
    with_a_reference = [blocks_needed(k - 1) for k in (2, 3, 5, 8, 10, 28)]
    assert all_pairs == [6, 7, 9, 11, 11, 14] and with_a_reference == [6, 7, 8, 9, 9, 11]


def test_too_few_splits_are_reported_with_the_number_that_would_do() -> None:
    assert too_few_blocks(5, 10, 45) == (
        "5 splits are too few for Wilcoxon's test to be significant for any pair of 10 methods: it needs at least 11."
    )
    assert too_few_blocks(1, 3, 3) == "One split: what follows is about these clients, not about the methods."
    assert too_few_blocks(11, 10, 45) == "" and too_few_blocks(1, 1, 0) == ""


def test_a_tail_inside_the_range_of_chance_is_no_finding() -> None:
    floor = Interval(0.80, 0.70, 0.85, 20)
    assert tail_in_words(0.71, floor) == "Not below what chance alone explains"
    assert tail_in_words(0.69, floor) == "Below what chance alone explains"
    assert tail_in_words(0.69, Interval(nan, -inf, inf, 0)) == ""
