"""The static part of an animated figure is drawn once."""

import json

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.charts.plot import palette
from app.components.moving_figure import still

NOTE = "results appear when this run ends"


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


@pytest.mark.parametrize(("others", "notes"), [([], [NOTE]), ([{"x": [1], "y": [1]}], [])])
def test_a_note_replaces_hidden_results_only_in_an_empty_figure(others: list[dict], notes: list[str]) -> None:
    def page(others: list[dict]) -> None:
        from app.components.moving_figure import RESULT, hidden_results, moving_figure

        result = {"type": "scatter", "name": "mean", "x": [1, 2], "y": [3, 4], "meta": RESULT}
        figure = {"data": [result, *({"type": "scatter"} | other for other in others)], "layout": {}}
        with hidden_results(True):
            moving_figure(figure, {}, key="f", alt="", name="f")

    at = AppTest.from_function(page, args=(others,)).run()
    assert not at.exception
    spec = json.loads(at.get("plotly_chart")[0].proto.spec)
    assert spec["data"][0]["visible"] is False
    assert [note["text"] for note in spec["layout"].get("annotations", [])] == notes
