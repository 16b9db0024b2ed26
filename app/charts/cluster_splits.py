"""The conditions for a split in CFL: the mean update of a cluster is short, but some client's update is long.

    a_k = ||mean update|| < eps_1   and   b_k = max_i ||update_i|| > eps_2          after the warm-up

The thresholds depend on the learning rate and the number of local steps; choose them from these two curves.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import HUES, base_layout, is_dark, theme
from app.wording import number, plural


def data(mean: Mapping[int, np.ndarray], largest: Mapping[int, np.ndarray], eps1: float, eps2: float) -> pd.DataFrame:
    """Norms of each cluster by round -> [round, mean, largest, met], with the shortest mean and the longest update.

    ``met``: one of the clusters meets both thresholds. Rounds in which no cluster had participants are omitted.
    """
    rows = [
        {
            "round": at,
            "mean": float(np.nanmin(mean[at])),
            "largest": float(np.nanmax(largest[at])),
            "met": bool(((mean[at] < eps1) & (largest[at] > eps2)).any()),
        }
        for at in sorted(mean)
        if np.isfinite(mean[at]).any()
    ]
    return pd.DataFrame(rows, columns=["round", "mean", "largest", "met"])


def figure(df: pd.DataFrame, eps1: float, eps2: float, at: int) -> go.Figure:
    """Draw both norms, each with its threshold dotted in its color: solid with circles, and dashed with diamonds."""
    fig, dark = go.Figure(), is_dark()
    looks = (
        ("mean", "shortest mean update", eps1, "ε₁", "green", "solid"),
        ("largest", "longest single update", eps2, "ε₂", "vermilion", "dash"),
    )
    for name, title, threshold, symbol, hue, dash in looks:
        color = HUES[hue][dark]
        fig.add_scatter(
            x=df["round"],
            y=df[name].astype("float32"),
            mode="lines",
            name=title,
            line={"color": color, "width": 2.2, "dash": dash},
            hovertemplate=f"round %{{x}}: {title} %{{y:.3g}}<extra></extra>",
        )
        fig.add_hline(
            y=threshold,
            line={"color": color, "width": 1.2, "dash": "dot"},
            annotation={
                "text": f"{symbol} = {threshold:g}",
                "font": {"color": color, "size": 13},
                "x": 1,
                "xanchor": "right",
            },
        )
    fig.add_vline(x=at, line={"color": theme().muted, "width": 1, "dash": "dot"})
    base_layout(fig, height=340)
    fig.update_xaxes(title_text="round")
    fig.update_yaxes(title_text="norm of updates", rangemode="tozero")
    return fig.update_layout(legend={"orientation": "h", "y": -0.25, "yanchor": "top", "x": 0})


def finding(df: pd.DataFrame, eps1: float, eps2: float, warmup: int) -> str:
    """Name the condition that prevents a split, or count how often a cluster met both."""
    late = df[df["round"] > warmup]
    if late.empty:
        return f"Clusters may split after round {warmup}, which the run has not reached."
    if late["met"].any():
        return f"After the warm-up a cluster meets both thresholds in {plural(int(late['met'].sum()), 'round')}."
    if not (late["mean"] < eps1).any():
        least = number(float(late["mean"].min()))
        return f"The mean update is never below ε₁ = {eps1:g}: its smallest norm is {least}, so no cluster splits."
    if not (late["largest"] > eps2).any():
        most = number(float(late["largest"].max()))
        return f"No update is above ε₂ = {eps2:g}: the largest norm is {most}, so no cluster splits."
    return "Both thresholds are met, but never in the same cluster and round, so no cluster splits."
