"""How the runs that a reader trains are drawn, in every story: dots for now, rings where earlier ones ended.

The traces have no places yet: a figure's ``moving`` says them by these names.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from app.charts.plot import palette


def color() -> str:
    """Of all that the reader trains."""
    return palette.HUES["vermilion"][palette.is_dark()]


def dots(told: str, symbols: Sequence[str] = ("circle",), name: str = "your run") -> go.Scatter:
    """Where the run is: a dot, or one of each symbol; ``told`` is what they say to the pointer."""
    return go.Scatter(
        x=[],
        y=[],
        mode="markers",
        name=name,
        hovertemplate=f"{told}<extra></extra>",
        marker={
            "color": color(),
            "symbol": list(symbols),
            "size": 13,
            "line": {"color": palette.ground().paper, "width": 2},
        },
    )


def rings(told: str, symbol: str = "circle") -> go.Scatter:
    """Where earlier runs ended."""
    return go.Scatter(
        x=[],
        y=[],
        mode="markers",
        name="earlier runs",
        hovertemplate=f"{told}<extra></extra>",
        marker={"color": color(), "symbol": f"{symbol}-open", "size": 10, "line": {"width": 2}},
    )


def way(name: str = "way") -> go.Scatter:
    """The line that the run came along, or that it stands on."""
    line = {"color": color(), "width": 2}
    return go.Scatter(x=[], y=[], mode="lines", name=name, line=line, opacity=0.45, hoverinfo="skip")
