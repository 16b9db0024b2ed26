"""Where runs end at every stop of a dial: lines with their bands over seeds, and the reader's run on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.bands import band
from app.charts.plot.line_labels import End, label_ends
from app.components.moving_figure import RESULT, Moves
from app.stories.dial_example import DialExample
from app.stories.figures.legend import explain
from app.wording import percent_pm


@dataclass(frozen=True)
class Line:
    """How a line is drawn; ``symbol`` is that of the reader's run on it."""

    color: str
    dash: str
    symbol: str = "circle"


def data(example: DialExample, stops: Sequence[str] | None = None) -> pd.DataFrame:
    """[line, stop, mean, pm, seeds]: accuracies of the last round over the seeds, a row a stop of a line.

    ``stops``: only these.
    """
    rows = [
        (line, stop, *example.at(line, stop), len(example.seeds))
        for line in example.lines
        for stop in example.stops
        if stops is None or stop in stops
    ]
    return pd.DataFrame(rows, columns=["line", "stop", "mean", "pm", "seeds"])


def figure(
    df: pd.DataFrame,
    lines: Mapping[str, Line],
    title: str,
    ticks: Sequence[float],
    *,
    height: int,
    samples: int,
    low: int = 0,
    unit: str = "",
    is_log: bool = False,
    is_live: bool = True,
    up_to: str | None = None,
) -> go.Figure:
    """``lines`` of ``df`` over the numbers that the stops stand for; ``samples`` are the test samples of a client.

    The y axis begins at ``low``. Unless it ``is_live``, no run of the reader's is on them. ``up_to``: the last stop
    that is shown.
    """
    fig, ends, stops = go.Figure(), [], df["stop"].astype(float)
    last = stops.max() if up_to is None else float(up_to)
    is_whole = last == stops.max()
    for name, line in lines.items():
        own = df[(df["line"] == name) & (stops <= last)]
        x, mean, pm = own["stop"].astype(float).to_numpy(), 100 * own["mean"].to_numpy(), 100 * own["pm"].to_numpy()
        fig.add_trace(band(x, mean, pm, line.color))
        fig.add_scatter(
            x=x,
            y=mean,
            mode="lines" if is_whole else "lines+markers",
            marker={"size": 7, "symbol": line.symbol},
            line={"color": line.color, "dash": line.dash, "width": 2.5},
            hoverinfo="text",
            hovertext=[
                f"{row.stop}{unit}: {name} {percent_pm(row.mean, row.pm, samples=samples)}, {row.seeds} seeds"
                for row in own.itertuples()
            ],
        )
        end = None if is_whole else float(np.log10(x[-1]) if is_log else x[-1])
        ends.append(End(name, end, float(mean[-1]), line.color))
    fig.update_traces(meta=RESULT)
    fig.add_traces(
        [
            live_traces.way("stop"),
            live_traces.rings("your earlier run: %{y:.0f} %"),
            *(
                live_traces.dots(f"this run, {name}: %{{y:.0f}} %", [line.symbol], f"your {name}")
                for name, line in lines.items()
            ),
        ]
    )
    palette.base_layout(fig, height=height)
    label_ends(fig, ends, low, 100, lines=12)
    fig.update_annotations(name=RESULT)
    explain(fig, f"lines: mean of {df['seeds'].iloc[0]} seeds", is_live=is_live)
    ticks_y = list(range(low, 101, 20 if low < 50 else 5))
    reach = np.log10([stops.min() / 1.1, stops.max() * 1.1]) if is_log else [-0.02 * stops.max(), 1.02 * stops.max()]
    fig.update_layout(showlegend=False, margin_t=12)
    fig.update_xaxes(
        type="log" if is_log else "linear",
        range=list(reach),
        tickvals=list(ticks),
        tickangle=0,
        fixedrange=True,
        ticktext=[f"{tick:g}{unit}" for tick in ticks],
        title_text=title,
    )
    fig.update_yaxes(range=[low, 102], tickvals=ticks_y, title_text="accuracy, %", fixedrange=True)
    return fig


def moving(stop: str, now: Mapping[str, float], marks: Sequence[tuple[str, float]] = ()) -> Moves:
    """The run's values ``now`` on their lines at ``stop``, and where earlier runs ended."""
    at = float(stop)
    moves = {f"your {line}": {"x": [at], "y": [100 * value]} for line, value in now.items()}
    moves["stop"] = {"x": [at, at], "y": [0, 100]}
    moves["earlier runs"] = {"x": [float(s) for s, _ in marks], "y": [100 * value for _, value in marks]}
    return moves
