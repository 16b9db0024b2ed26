"""Accuracy of one client by round: its personalized model, the global model, and other methods."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme
from app.data.thinning import evenly
from app.wording import decimals

MAX_POINTS = 300
OWN_WIDTH, OTHER_WIDTH = 2.6, 1.4


class Line(NamedTuple):
    """Accuracies of all clients, [R, N], at ``rounds`` [R], and the name of the line."""

    name: str
    algorithm: str
    is_own: bool
    is_global: bool
    rounds: np.ndarray
    accuracy: np.ndarray


def data(lines: Iterable[Line], client: int) -> pd.DataFrame:
    """[line, algorithm, is_own, is_global, round, accuracy] of one client, at most 300 points per line."""
    parts = []
    for line in lines:
        at = evenly(len(line.rounds), MAX_POINTS)
        parts.append(
            pd.DataFrame(
                {
                    "line": line.name,
                    "algorithm": line.algorithm,
                    "is_own": line.is_own,
                    "is_global": line.is_global,
                    "round": line.rounds[at],
                    "accuracy": line.accuracy[at, client],
                }
            )
        )
    columns = ["line", "algorithm", "is_own", "is_global", "round", "accuracy"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def figure(df: pd.DataFrame, at: int, samples: float | None = None) -> go.Figure:
    """The run's own lines wide, global models dashed, other methods thin; a hairline at round ``at``.

    ``samples`` is how many test samples the client has.
    """
    fig, ends = go.Figure(), []
    look = looks(df.assign(method=df["algorithm"]))
    for name, own in df.dropna(subset=["accuracy"]).groupby("line", sort=False):
        first, style = own.iloc[0], look[own.iloc[0]["algorithm"]]
        dash = "dash" if first["is_global"] else "solid" if first["is_own"] else style.dash
        fig.add_scatter(
            x=own["round"].to_numpy(np.float32),
            y=100 * own["accuracy"].to_numpy(np.float32),
            name=name,
            mode="lines",
            line={"color": style.color, "dash": dash, "width": OWN_WIDTH if first["is_own"] else OTHER_WIDTH},
            hovertemplate=f"{name}, round %{{x}}<br>%{{y:.{decimals(samples)}f}} %<extra></extra>",
        )
        last = own.iloc[-1]
        ends.append(End(str(name), float(last["round"]), 100 * float(last["accuracy"]), style.color))
    base_layout(fig, height=360)
    low, high = _extent(df)
    fig.add_vline(at, line={"color": theme().muted, "width": 1, "dash": "dot"})
    fig.update_yaxes(title_text="test accuracy, %", range=[low, high])
    fig.update_xaxes(title_text="round", range=[float(df["round"].min()), float(df["round"].max()) or 1.0])
    label_ends(fig, ends, low, high, lines=16)
    return fig.update_layout(showlegend=False)


def _extent(df: pd.DataFrame) -> tuple[float, float]:
    """The range of the trained rounds, if there are any: lines may rise from below it at round 0."""
    trained = df[df["round"] > 0]
    percents = 100 * (trained if trained["accuracy"].notna().any() else df)["accuracy"]
    low, high = percents.min(), percents.max()
    pad = max(1.0, 0.06 * (high - low))
    return max(-2.0, low - pad), min(102.0, high + pad)
