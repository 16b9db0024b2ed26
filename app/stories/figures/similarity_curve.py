"""How similar a reconstruction is to the image, by batch size: a line for each amount of noise."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.bands import band
from app.charts.plot.line_labels import End, label_ends
from app.components.moving_figure import RESULT, Moves
from app.stories.dial_example import DialExample

HEIGHT = 270
HUES = ("blue", "green", "amber", "rust")


def data(example: DialExample, batches: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
    """[line, batch, mean, pm, seeds]: correlations over the seeds. ``batches``: only these of some lines."""
    shown = dict.fromkeys(example.lines, example.stops) if batches is None else batches
    rows = [
        (line, int(stop), *example.at(line, stop), len(example.seeds))
        for line in example.lines
        for stop in shown.get(line, ())
    ]
    return pd.DataFrame(rows, columns=["line", "batch", "mean", "pm", "seeds"])


def figure(df: pd.DataFrame, reference: str, batches: Sequence[int]) -> go.Figure:
    """All lines of ``df``, the one named ``reference`` dotted and gray; ``moving`` adds the reader's run.

    ``batches`` are the ticks; lines may end before the last of them.
    """
    fig, ends, shade = go.Figure(), [], palette.theme()
    is_whole = df["batch"].max() == max(batches)
    for number, (name, own) in enumerate(df.groupby("line", sort=False)):
        is_reference = name == reference
        color = shade.muted if is_reference else palette.HUES[HUES[number % len(HUES)]][palette.is_dark()]
        fig.add_trace(band(own["batch"], own["mean"], own["pm"], color))
        fig.add_scatter(
            x=own["batch"],
            y=own["mean"],
            mode="lines" if is_whole else "lines+markers",
            marker={"size": 7},
            line={"color": color, "width": 1.5 if is_reference else 2.5, "dash": "dot" if is_reference else "solid"},
            hovertemplate=f"{name}, batch of %{{x}}: %{{y:.2f}}<extra></extra>",
        )
        end = None if is_whole else float(np.log10(own["batch"].iloc[-1]))
        ends.append(End(str(name), end, float(own["mean"].iloc[-1]), color))
    fig.update_traces(meta=RESULT)
    fig.add_traces(
        [
            live_traces.way("stop"),
            live_traces.rings("earlier run: %{y:.2f}"),
            live_traces.dots("your run: %{y:.2f}"),
        ]
    )
    palette.base_layout(fig, height=HEIGHT)
    label_ends(fig, ends, 0, 1, lines=11)
    fig.update_annotations(name=RESULT)
    fig.update_layout(showlegend=False, margin_t=8)
    fig.update_xaxes(
        type="log",
        range=[-0.04, 1.24],
        tickvals=list(batches),
        ticktext=[str(batch) for batch in batches],
        title_text="images in the batch",
        fixedrange=True,
    )
    fig.update_yaxes(range=[0, 1.04], title_text="correlation with the image", fixedrange=True)
    return fig


def moving(batch: int, value: float | None, ends: Sequence[tuple[int, float]]) -> Moves:
    """The run at its batch size, and (batch size, correlation) where earlier ones ended."""
    now = [] if value is None else [value]
    return {
        "stop": {"x": [batch, batch], "y": [0, 1]},
        "your run": {"x": [batch] * len(now), "y": now},
        "earlier runs": {"x": [at for at, _ in ends], "y": [end for _, end in ends]},
    }
