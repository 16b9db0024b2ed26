"""Thumbnails of figures: known points at known positions."""

import re

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app.charts.plot.palette import DARK, HUES, LIGHT
from app.components.shown import Shown
from app.papers.sketch import HEIGHT, MAX_MARKS, PAD, WIDTH, as_image, in_dark, sketch

BLUE, BLUE_IN_DARK = HUES["blue"]
LEFT, RIGHT, TOP, BOTTOM = PAD, WIDTH - PAD, PAD, HEIGHT - PAD


def drawn(*traces: go.Scatter | go.Heatmap | go.Bar, **layout: object) -> str:
    figure = go.Figure(list(traces)).update_layout(**layout)
    return sketch(lambda: Shown(figure, pd.DataFrame(), "", None, None, key="a", name="a"))


def test_a_line_goes_from_corner_to_corner_with_a_gap_where_a_value_is_missing() -> None:
    line = {"color": BLUE, "dash": "dash", "width": 2}
    svg = drawn(go.Scatter(x=[0, 1, 2, 3, 4], y=[0, 1, np.nan, 3, 4], mode="lines", line=line))
    path = re.search(rf'd="([^"]*)" stroke="{BLUE}"', svg)
    assert path is not None and path[1].startswith(f"M{LEFT} {BOTTOM}L") and path[1].endswith(f"L{RIGHT} {TOP}")
    assert path[1].count("M") == 2 and 'stroke-dasharray="5 3"' in svg


def test_a_logarithmic_axis_puts_equal_factors_at_equal_distances() -> None:
    svg = drawn(go.Scatter(x=[0, 1, 2], y=[1, 10, 100], mode="markers"), yaxis={"type": "log"})
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', svg)]
    assert heights == pytest.approx([BOTTOM, (TOP + BOTTOM) / 2, TOP])


def test_a_reversed_axis_grows_downwards() -> None:
    svg = drawn(go.Scatter(x=[0, 1], y=[0, 1], mode="markers"), yaxis={"range": [1, 0]})
    assert [float(y) for y in re.findall(r'cy="([\d.]+)"', svg)] == [TOP, BOTTOM]


def test_many_marks_are_thinned() -> None:
    svg = drawn(go.Scatter(x=np.arange(1000), y=np.arange(1000), mode="markers"))
    assert svg.count("<circle") == MAX_MARKS


def test_equal_neighbors_of_a_heat_map_are_one_cell() -> None:
    scale = [(0, "#111111"), (0.5, "#111111"), (0.5, "#222222"), (1, "#222222")]
    svg = drawn(go.Heatmap(z=[[0, 0, 1], [1, 1, 1]], x=[0, 1, 2], y=[0, 1], colorscale=scale, zmin=-0.5, zmax=1.5))
    assert re.findall(r'fill="(#\d+)"', svg) == ["#111111", "#222222", "#222222"]


def test_the_same_picture_in_dark_colors() -> None:
    svg = in_dark(drawn(go.Scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": "rgba(0,114,178,0.5)"})))
    assert f'stroke="{BLUE_IN_DARK}"' in svg and 'stroke-opacity="0.5"' in svg
    assert DARK.line in svg and LIGHT.line not in svg


def test_a_picture_is_an_address_that_needs_no_request() -> None:
    assert as_image('<svg a="b"/>') == "data:image/svg+xml,%3Csvg%20a%3D%22b%22/%3E"


def test_nothing_drawn_is_no_picture() -> None:
    assert sketch(lambda: None) == ""


def test_levels_of_a_contour_are_one_path_each_with_a_gap_where_values_are_missing() -> None:
    contour = go.Contour(
        x=[0, 1, 2, 3, 4],
        y=[0, 1],
        z=[[0, 0, np.nan, 1, 1]] * 2,
        coloraxis="coloraxis",
        contours={"start": 0, "end": 1, "size": 0.5},
    )
    svg = drawn(contour, coloraxis={"colorscale": [(0, "#000000"), (1, "#ffffff")], "cmin": 0, "cmax": 1})
    paths = re.findall(r'd="(M[^"]*z)" fill="(rgb[^"]*)"', svg)
    assert [color for _, color in paths] == ["rgb(64, 64, 64)", "rgb(191, 191, 191)"]
    left, right = ([float(x) for x in re.findall(r"M([\d.]+) ", path)] for path, _ in paths)
    step = (RIGHT - LEFT) / 4
    assert set(left) == {LEFT} and min(right) >= LEFT + 3 * step - 1
    assert {abs(float(w) - step) < 2 for w in re.findall(r"h([\d.]+)v", paths[0][0])} == {True}
