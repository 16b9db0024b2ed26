"""Figures are cached by their numbers and their theme."""

from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go
import pytest
import streamlit as st

from app.charts.plot import figure_cache

drawn: list[pd.DataFrame] = []


def draw(table: pd.DataFrame, share: float = 0.05, *, name: str = "") -> go.Figure:
    drawn.append(table)
    return go.Figure(go.Scatter(y=table["y"], name=f"{name} {share}"))


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    st.cache_resource.clear()
    drawn.clear()
    yield
    st.cache_resource.clear()


def test_equal_numbers_are_drawn_once() -> None:
    first = figure_cache.figure(draw, pd.DataFrame({"y": [1, 2]}), 0.1, name="a")
    assert figure_cache.figure(draw, pd.DataFrame({"y": [1, 2]}), 0.1, name="a") is first
    assert len(drawn) == 1


@pytest.mark.parametrize("table", [{"y": [1, 3]}, {"y": [2, 1]}, {"y": [1.0, 2.0]}, {"y": [1, 2], "z": [0, 0]}])
def test_different_numbers_are_a_different_figure(table: dict[str, list[float]]) -> None:
    assert figure_cache.figure(draw, pd.DataFrame({"y": [1, 2]})) is not figure_cache.figure(draw, pd.DataFrame(table))
    assert len(drawn) == 2


def test_different_words_are_a_different_figure() -> None:
    table = pd.DataFrame({"y": [1, 2]})
    figures = [
        figure_cache.figure(draw, table, 0.1),
        figure_cache.figure(draw, table, 0.2),
        figure_cache.figure(draw, table, 0.1, name="a"),
    ]
    assert [fig.data[0].name for fig in figures] == [" 0.1", " 0.2", "a 0.1"]


def test_a_different_theme_is_a_different_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame({"y": [1, 2]})
    light = figure_cache.figure(draw, table)
    monkeypatch.setattr(figure_cache, "is_dark", lambda: True)
    dark = figure_cache.figure(draw, table)
    monkeypatch.setattr(figure_cache, "is_presenting", lambda: True)
    assert len({id(light), id(dark), id(figure_cache.figure(draw, table))}) == 3
