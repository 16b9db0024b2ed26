"""The cost of a run by round: seconds of training, megabytes sent, gradient evaluations."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, theme
from app.wording import count, plural, seconds, size_bytes
from engine.core.vocabulary import COSTS, megabytes

PANELS = {
    "seconds": "seconds of training",
    "megabytes": "megabytes sent",
    "gradient_evaluations": "gradient evaluations",
}
MAX_POINTS = 300


def data(series: pd.DataFrame) -> pd.DataFrame:
    """[round, name, value] of COSTS -> [round, seconds, megabytes, gradient_evaluations], of one round each.

    Round 0 costs nothing and is omitted. More than 300 rounds are grouped: a row is the mean of a few, and ``round``
    the last of them.
    """
    wide = series.pivot_table(index="round", columns="name", values="value").reindex(columns=list(COSTS))
    wide = wide[wide.index > 0].assign(megabytes=megabytes).reset_index()
    points = wide[["round", *PANELS]]
    if len(points) <= MAX_POINTS:
        return points.rename_axis(columns=None)
    group = np.arange(len(points)) * MAX_POINTS // len(points)
    means = points.groupby(group).mean().assign(round=points.groupby(group)["round"].last())
    return means.rename_axis(columns=None)


def finding(series: pd.DataFrame) -> str:
    """``100 rounds: 12 s of training, 120 ms each; 45.2 MB sent; 400 000 gradient evaluations.``"""
    total = series.groupby("name")["value"].sum().reindex(list(COSTS))
    rounds = series.loc[series["round"] > 0, "round"].nunique()
    if not rounds:
        return "No round has been trained yet."
    each = seconds(total["seconds"] / rounds)
    sent = size_bytes(total["bytes_up"] + total["bytes_down"])
    return (
        f"{plural(rounds, 'round')}: {seconds(total['seconds'])} of training, {each} each; {sent} sent; "
        f"{count(total['gradient_evaluations'])} gradient evaluations."
    )


def figure(df: pd.DataFrame, name: str) -> go.Figure:
    """One of PANELS over the rounds, from zero."""
    title = PANELS[name]
    fig = go.Figure(
        go.Scatter(
            x=df["round"].to_numpy(np.float32),
            y=df[name].to_numpy(np.float32),
            mode="lines",
            name=title,
            line={"color": theme().accent, "width": 1.6},
            hovertemplate=f"round %{{x:.0f}}: %{{y:.4g}} {title}<extra></extra>",
        )
    )
    base_layout(fig, height=260)
    fig.update_xaxes(title_text="round")
    fig.update_yaxes(title_text=title, rangemode="tozero", nticks=5)
    return fig.update_layout(showlegend=False)
