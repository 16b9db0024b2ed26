"""Bands by their corners, and whiskers by their lengths."""

import numpy as np

from app.charts.plot.bands import band, whiskers


def test_a_band_goes_there_above_the_line_and_back_below_it() -> None:
    drawn = band([1, 2], [50, 60], [5, 10], "#102030")
    assert (list(drawn.x), list(drawn.y)) == ([1, 2, 2, 1], [55, 70, 50, 45])
    assert drawn.fillcolor.startswith("rgba(16,32,48,")


def test_a_band_is_as_narrow_as_the_line_where_the_spread_is_not_known() -> None:
    assert list(band([1, 2], [50, 60], [np.nan, 10], "#102030").y) == [50, 70, 50, 50]


def test_a_band_of_few_points_has_no_marks_at_its_corners() -> None:
    assert band([1], [50], [5], "#102030").mode == "lines"


def test_whiskers_are_as_long_as_the_spread_and_none_where_it_is_not_known() -> None:
    drawn = whiskers([0.5, np.nan], "#102030")
    assert drawn is not None and np.asarray(drawn["array"]).tolist() == [0.5, 0]
    assert whiskers([np.nan], "#102030") is None
