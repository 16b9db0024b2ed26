"""The band around a line, by its corners."""

import numpy as np

from app.bands import band


def test_a_band_goes_there_above_the_line_and_back_below_it() -> None:
    drawn = band([1, 2], [50, 60], [5, 10], "#102030")
    assert (list(drawn.x), list(drawn.y)) == ([1, 2, 2, 1], [55, 70, 50, 45])
    assert drawn.fillcolor.startswith("rgba(16,32,48,")


def test_a_band_is_as_narrow_as_the_line_where_the_spread_is_not_known() -> None:
    assert list(band([1, 2], [50, 60], [np.nan, 10], "#102030").y) == [50, 70, 50, 50]


def test_a_band_of_few_points_has_no_marks_at_its_corners() -> None:
    assert band([1], [50], [5], "#102030").mode == "lines"
