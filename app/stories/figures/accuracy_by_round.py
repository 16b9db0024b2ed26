"""Accuracy by round: the reader's run as a line, references dotted, rings where earlier runs ended."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.line_labels import End, label_ends
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.legend import explain

HEIGHT = 240
STYLES = {"Together": "fedavg", "Alone": "local_train"}


def figure(references: Mapping[str, float], rounds: int, seeds: int) -> go.Figure:
    """``references``: accuracies of ``Together`` and ``Alone`` after the last round, means over ``seeds``."""
    fig, ends = go.Figure(), []
    for name, accuracy in references.items():
        style = palette.style_of(STYLES[name])
        color, y = palette.color(style), 100 * accuracy
        line = {"color": color, "width": 1.5, "dash": style.dash}
        fig.add_scatter(
            x=[0, rounds],
            y=[y, y],
            mode="lines",
            line=line,
            hoverinfo="text",
            hovertext=f"{name.lower()} {y:.0f} %",
            meta=RESULT,
        )
        ends.append(End(f"{name.lower()} {y:.0f} %", None, y, color))
    fig.add_traces(
        [
            live_traces.way(),
            live_traces.rings("earlier run: %{y:.0f} %"),
            live_traces.dots("your run, round %{x}: %{y:.0f} %"),
        ]
    )
    palette.base_layout(fig, height=HEIGHT)
    label_ends(fig, ends, 0, 100, lines=10)
    fig.update_annotations(name=RESULT)
    explain(fig, f"lines: mean of {seeds} seeds")
    fig.update_layout(showlegend=False, margin_t=8)
    fig.update_xaxes(range=[-0.3, rounds + 0.3], title_text="round", fixedrange=True)
    fig.update_yaxes(range=[0, 102], tickvals=list(range(0, 101, 20)), title_text="accuracy, %", fixedrange=True)
    return fig


def moving(accuracies: Sequence[float], ends: Sequence[tuple[int, float]]) -> Moves:
    """The run after every round, and (round, accuracy) where earlier ones ended."""
    y = [100 * accuracy for accuracy in accuracies]
    return {
        "way": {"x": list(range(len(y))), "y": y},
        "your run": {"x": [len(y) - 1] if y else [], "y": y[-1:]},
        "earlier runs": {"x": [r for r, _ in ends], "y": [100 * accuracy for _, accuracy in ends]},
    }
