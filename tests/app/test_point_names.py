"""Labels next to points: separated from each other and close to their points."""

import math

import plotly.graph_objects as go
import pytest

from app.charts.plot.point_labels import HIGH, Point, name_points


def heights(*ys: float) -> list[float]:
    """The heights of the labels of points at x = 1, from the top."""
    fig = go.Figure()
    name_points(fig, [Point(str(n), 1.0, y, "black") for n, y in enumerate(ys)])
    return [name.y if name.ay is None else name.ay for name in fig.layout.annotations]


def test_a_label_is_at_the_height_of_its_point() -> None:
    assert heights(90.0, 80.0) == pytest.approx([90.0, 80.0])


def test_labels_of_close_points_are_stacked() -> None:
    assert heights(90.0, 90.0, 80.0) == pytest.approx([90.0, 90.0 - 10 * HIGH, 80.0])


def test_a_label_moves_no_lower_than_necessary() -> None:
    assert heights(90.0, 89.9, 80.0) == pytest.approx([90.0, 90.0 - 10 * HIGH, 80.0])


def test_a_moved_label_is_connected_to_its_point() -> None:
    fig = go.Figure()
    name_points(fig, [Point("first", 1.0, 90.0, "black"), Point("second", 1.0, 90.0, "red")])
    first, second = fig.layout.annotations
    assert not first.showarrow
    assert (second.showarrow, second.y, second.ayref, second.arrowcolor) == (True, 90.0, "y", "red")


def test_a_label_near_the_right_edge_is_left_of_its_point() -> None:
    for from_zero, anchors in ((False, ("left", "right")), (True, ("right", "right"))):
        fig = go.Figure()
        name_points(fig, [Point("first", 99.0, 2.0, "black"), Point("second", 100.0, 1.0, "black")], from_zero)
        assert tuple(name.xanchor for name in fig.layout.annotations) == anchors


@pytest.mark.parametrize("last", [97.0, math.nextafter(97.0, 98.0)])
def test_points_that_differ_only_by_rounding_have_labels(last: float) -> None:
    assert heights(97.0, 97.0, last) == pytest.approx([97.0, 97.0 - HIGH, 97.0 - 2 * HIGH])
