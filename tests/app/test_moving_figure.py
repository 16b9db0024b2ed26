"""The static part of an animated figure is drawn once."""

import plotly.graph_objects as go
import pytest

from app.charts.plot import palette
from app.components.moving_figure import still


def test_it_is_drawn_once_per_arguments_and_theme(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    @still
    def dots(n: int) -> go.Figure:
        drawn.append((n, palette.is_dark()))
        return go.Figure(go.Scatter(x=[n]))

    for is_dark in (False, True):
        monkeypatch.setattr(palette, "is_dark", lambda is_dark=is_dark: is_dark)
        assert [dots(n)["data"][0]["x"] for n in (1, 2, 1)] == [[1], [2], [1]]
    assert drawn == [(1, False), (2, False), (1, True), (2, True)]


def test_figures_with_equal_arguments_are_distinguished() -> None:
    @still
    def dots() -> go.Figure:
        return go.Figure(go.Scatter(mode="markers"))

    @still
    def lines() -> go.Figure:
        return go.Figure(go.Scatter(mode="lines"))

    assert [spec["data"][0]["mode"] for spec in (dots(), lines())] == ["markers", "lines"]
