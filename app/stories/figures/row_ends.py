"""Two accuracies of each row: gray final results with their spread, and the run's own above or below them."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.segments import joined
from app.components.moving_figure import RESULT, Moves

ROW, AROUND = 46, 72  # pixels of a row, and of the axis
APART = 0.14  # of the two results of the run on a row
SYMBOLS = ("circle", "square-open")
Ends = Sequence[tuple[float, float]]
"""Mean and standard deviation over seeds of each row."""


def figure(rows: Sequence[str], ends: Mapping[str, Ends], title: str) -> go.Figure:
    """The first row is above. ``ends`` are two results by name, which ``moving`` adds to."""
    fig, shade, y = go.Figure(), palette.ground(), [-float(row) for row in range(len(rows))]
    means = [[100 * mean for mean, _ in own] for own in ends.values()]
    fig.add_scatter(
        x=joined(*means), y=joined(y, y), mode="lines", line={"color": shade.line, "width": 5}, hoverinfo="skip"
    )
    for (name, own), symbol, x in zip(ends.items(), SYMBOLS, means, strict=True):
        fig.add_scatter(
            x=x,
            y=y,
            mode="markers",
            marker={"symbol": symbol, "size": 12, "color": shade.muted, "line": {"width": 2}},
            error_x={
                "type": "data",
                "array": [100 * deviation for _, deviation in own],
                "color": shade.muted,
                "thickness": 1.4,
                "width": 4,
            },
            customdata=list(rows),
            hovertemplate=f"%{{customdata}}, {name}: %{{x:.1f}} %, final result<extra></extra>",
        )
    fig.update_traces(meta=RESULT)
    for name, symbol in zip(ends, SYMBOLS, strict=True):
        fig.add_scatter(
            x=[],
            y=[],
            mode="markers",
            name=name,
            marker={"symbol": symbol, "size": 13, "color": live_traces.color(), "line": {"width": 2}},
            hovertemplate=f"your run, {name}: %{{x:.1f}} %<extra></extra>",
        )
    palette.base_layout(fig, height=AROUND + ROW * len(rows))
    fig.update_layout(showlegend=False, margin_t=8)
    fig.update_xaxes(range=[-2, 102], title_text=title, fixedrange=True)
    fig.update_yaxes(
        range=[0.5 - len(rows), 0.5], tickvals=y, ticktext=list(rows), showgrid=False, fixedrange=True, ticks=""
    )
    return fig


def moving(names: Sequence[str], now: Mapping[int, tuple[float, float]]) -> Moves:
    """The run's two results of some rows, a little above and below these."""
    return {
        name: {
            "x": [100 * values[at] for values in now.values()],
            "y": [-row + APART * (1 - 2 * at) for row in now],
        }
        for at, name in enumerate(names)
        if now
    }
