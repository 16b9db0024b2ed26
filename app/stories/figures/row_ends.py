"""Two accuracies of each row: gray final results with their spread, and the run's own above or below them."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.annotations import annotate
from app.charts.plot.segments import joined
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.legend import NOTE

ROW, AROUND = 46, 64  # pixels of a row, and of the axis
LINE = 1.4  # of the key above the rows, in type sizes
APART = 0.14  # of the two results of the run on a row
SYMBOLS = ("circle", "square-open")
SIGNS = ("●", "□")
Ends = Sequence[tuple[float, float]]
"""Mean and standard deviation over seeds of each row."""


def figure(rows: Sequence[str], ends: Mapping[str, Ends], title: str, *, seeds: int) -> go.Figure:
    """The first row is above. ``ends`` are two results by name, means over ``seeds``, which ``moving`` adds to."""
    fig, shade, y = go.Figure(), palette.theme(), [-float(row) for row in range(len(rows))]
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
    line = round(LINE * fig.layout.font.size)
    fig.update_layout(showlegend=False, margin_t=8 + 2 * line, height=fig.layout.height + 2 * line)
    _add_key(fig, list(ends), seeds, line)
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


def _add_key(fig: go.Figure, names: Sequence[str], seeds: int, line: float) -> None:
    """What the marks are, in two lines above the rows: those that ship with the product, and the run's."""
    above: dict[str, object] = {
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
    }
    shipped = "  ".join(f"{sign} {name}" for sign, name in zip(SIGNS, names, strict=True))
    notes: list[dict[str, object]] = [
        {"text": f"{shipped}, {seeds} seeds", "yshift": line, "font": {"color": palette.theme().muted}},
        {"text": f"{' '.join(SIGNS)} this run", "name": NOTE, "font": {"color": live_traces.color()}},
    ]
    annotate(fig, [{**above, **note, "showarrow": False} for note in notes])
