"""The loss along one direction through two models: FedAvg's dotted, FedSAM's solid."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components.moving_figure import Moves

HEIGHT = 430
MAX_LOSS = 2.6  # guessing one of ten digits has a loss of 2.30


def data(steps: np.ndarray, sections: np.ndarray) -> pd.DataFrame:
    """[step, before, now] of losses [2, steps]; 0 is the model itself."""
    before, now = sections
    return pd.DataFrame({"step": steps, "before": before, "now": now})


def figure(rho: float) -> go.Figure:
    """The empty figure; ``moving`` adds the curves."""
    fig, shade = go.Figure(), palette.theme()
    fig.add_scatter(x=[0, 0], y=[0, MAX_LOSS], mode="lines", line={"color": shade.line, "width": 1.5}, hoverinfo="skip")
    looks = (
        ("before", "fedavg", "FedAvg", "dot", "top right"),
        ("now", "fedsam", f"ρ = {rho:g}", "solid", "bottom right"),
    )
    for name, method, words, dash, beside in looks:
        color = palette.color(palette.style_of(method))
        fig.add_scatter(
            x=[],
            y=[],
            mode="lines",
            name=name,
            line={"color": color, "width": 2.5, "dash": dash},
            hovertemplate=f"{words}, %{{x:.1f}} away: loss %{{y:.2f}}<extra></extra>",
        )
        fig.add_scatter(
            x=[],
            y=[],
            mode="text",
            name=f"name of {name}",
            text=[words],
            textposition=beside,
            textfont_color=color,
            hoverinfo="skip",
        )
    palette.base_layout(fig, height=HEIGHT)
    fig.update_layout(showlegend=False, margin={"t": 8, "r": 12})
    fig.update_xaxes(
        range=[-1.02, 1.02],
        tickvals=[-1, -0.5, 0, 0.5, 1],
        ticktext=["−1", "−0.5", "model", "0.5", "1"],
        title_text="step along one fixed direction",
        fixedrange=True,
    )
    fig.update_yaxes(range=[0, MAX_LOSS], title_text="mean loss of all clients", fixedrange=True)
    return fig


def moving(df: pd.DataFrame) -> Moves:
    """Both sections as they are now, each named where it leaves the middle."""
    left = df.iloc[len(df) // 6]
    right = df.iloc[-1 - len(df) // 6]
    return {
        "before": {"x": df["step"].tolist(), "y": df["before"].tolist()},
        "now": {"x": df["step"].tolist(), "y": df["now"].tolist()},
        "name of before": {"x": [left["step"]], "y": [left["before"]]},
        "name of now": {"x": [right["step"]], "y": [right["now"]]},
    }


def finding(df: pd.DataFrame, rho: float) -> str:
    """How far the loss rises from the model to the edge, for both."""
    middle, ends = df.iloc[len(df) // 2], df.iloc[[0, -1]]
    rises = {name: ends[name].mean() - middle[name] for name in ("before", "now")}
    return (
        f"The loss at the model is {middle['now']:.2f} at rho = {rho:g} and {middle['before']:.2f} with FedAvg; one "
        f"step away it is {rises['now']:.2f} and {rises['before']:.2f} higher"
    )
