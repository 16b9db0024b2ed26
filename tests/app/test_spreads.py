"""The corners of bands and the lengths of whiskers."""

import numpy as np

from app.charts.plot.bands import band, whiskers


def test_a_band_follows_its_upper_and_then_its_lower_edge() -> None:
    drawn = band([1, 2], [50, 60], [5, 10], "#102030")
    assert (list(drawn.x), list(drawn.y)) == ([1, 2, 2, 1], [55, 70, 50, 45])
    assert drawn.fillcolor.startswith("rgba(16,32,48,")


def test_a_band_has_no_width_where_the_spread_is_unknown() -> None:
    assert list(band([1, 2], [50, 60], [np.nan, 10], "#102030").y) == [50, 70, 50, 50]


def test_a_band_with_few_points_has_no_markers() -> None:
    assert band([1], [50], [5], "#102030").mode == "lines"


def test_whiskers_have_the_length_of_a_known_spread() -> None:
    drawn = whiskers([0.5, np.nan], "#102030")
    assert drawn is not None and np.asarray(drawn["array"]).tolist() == [0.5, 0]
    assert whiskers([np.nan], "#102030") is None
