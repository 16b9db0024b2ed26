"""The traces of the reader's runs in stories: dots for the current run, rings for the results of earlier ones.

The traces are empty: a figure's ``moving`` fills them by these names.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from app.charts.plot import palette


def color() -> str:
    """The color of the reader's runs."""
    return palette.HUES["vermilion"][palette.is_dark()]


def dots(hover: str, symbols: Sequence[str] = ("circle",), name: str = "your run") -> go.Scatter:
    """The current position: a dot, or one of each symbol; ``hover`` is their hover text."""
    return go.Scatter(
        x=[],
        y=[],
        mode="markers",
        name=name,
        hovertemplate=f"{hover}<extra></extra>",
        marker={
            "color": color(),
            "symbol": list(symbols),
            "size": 13,
            "line": {"color": palette.theme().paper, "width": 2},
        },
    )


def rings(hover: str, symbol: str = "circle") -> go.Scatter:
    """The results of earlier runs."""
    return go.Scatter(
        x=[],
        y=[],
        mode="markers",
        name="earlier runs",
        hovertemplate=f"{hover}<extra></extra>",
        marker={"color": color(), "symbol": f"{symbol}-open", "size": 10, "line": {"width": 2}},
    )


def way(name: str = "way") -> go.Scatter:
    """The path of the run, or the line at its stop."""
    line = {"color": color(), "width": 2}
    return go.Scatter(x=[], y=[], mode="lines", name=name, line=line, opacity=0.45, hoverinfo="skip")
