"""Accuracy together and alone for each way in which clients differ: gray final results, and the run on its row."""

from collections.abc import Sequence

import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.segments import joined
from app.components.moving_figure import RESULT, Moves

HEIGHT = 210
APART = 0.14  # of the two methods on a row
SYMBOLS = ("circle", "square-open")
METHODS = ("together", "alone")
Ends = Sequence[tuple[float, float]]
"""Mean and standard deviation of each row."""


def figure(rows: Sequence[str], together: Ends, alone: Ends) -> go.Figure:
    """A row for each kind of difference, the first above; ``moving`` adds the run."""
    fig, shade, y = go.Figure(), palette.ground(), [-float(row) for row in range(len(rows))]
    means = [[100 * mean for mean, _ in ends] for ends in (together, alone)]
    fig.add_scatter(
        x=joined(*means), y=joined(y, y), mode="lines", line={"color": shade.line, "width": 5}, hoverinfo="skip"
    )
    for method, symbol, ends, x in zip(METHODS, SYMBOLS, (together, alone), means, strict=True):
        fig.add_scatter(
            x=x,
            y=y,
            mode="markers",
            marker={"symbol": symbol, "size": 12, "color": shade.muted, "line": {"width": 2}},
            error_x={
                "type": "data",
                "array": [100 * deviation for _, deviation in ends],
                "color": shade.muted,
                "thickness": 1.4,
                "width": 4,
            },
            customdata=list(rows),
            hovertemplate=f"%{{customdata}}, {method}: %{{x:.1f}} %, final result<extra></extra>",
        )
    fig.update_traces(meta=RESULT)
    for method, symbol in zip(METHODS, SYMBOLS, strict=True):
        fig.add_scatter(
            x=[],
            y=[],
            mode="markers",
            name=method,
            marker={"symbol": symbol, "size": 13, "color": live_traces.color(), "line": {"width": 2}},
            hovertemplate=f"your run, {method}: %{{x:.1f}} %<extra></extra>",
        )
    palette.base_layout(fig, height=HEIGHT)
    fig.update_layout(showlegend=False, margin_t=8)
    fig.update_xaxes(range=[0, 102], title_text="accuracy on own images, %", fixedrange=True)
    fig.update_yaxes(
        range=[0.5 - len(rows), 0.5], tickvals=y, ticktext=list(rows), showgrid=False, fixedrange=True, ticks=""
    )
    return fig


def moving(row: int, now: tuple[float, ...] | None) -> Moves:
    """The run's mean accuracies (together, alone), a little above and below its row."""
    return {
        method: {"x": [100 * value], "y": [-row + APART * side]}
        for method, value, side in zip(METHODS, now or (), (1, -1), strict=False)
    }
