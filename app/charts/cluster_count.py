"""How CGPFL-Heur chooses the number of clusters: e(K), whose weight μ can be changed without retraining.

    e(K) = capacity(K) + mu * spread(K)          capacity grows with K, the spread within clusters falls

Tang, Guo, Guo. Personalized Federated Learning with Contextualized Generalization, section 4.4.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, color, style_of, theme
from app.wording import number

STEPS_PER_DECADE, DECADES = 4, 2
TIE = 1e-9  # relative; equal up to rounding


def data(capacity: np.ndarray, spread: np.ndarray, mu: float) -> pd.DataFrame:
    """Both terms for K = 1, 2, ... -> [K, capacity, weighted, e, chosen]; of equal e(K), the smallest K is chosen."""
    e = capacity + mu * spread
    K = np.arange(1, len(capacity) + 1)
    return pd.DataFrame(
        {
            "K": K,
            "capacity": capacity,
            "weighted": mu * spread,
            "e": e,
            "chosen": np.arange(len(K)) == np.argmax(e <= e.min() * (1 + TIE)),
        }
    )


def weights_around(mu: float) -> list[float]:
    """Weights to try: a hundredth of ``mu`` to a hundred times it."""
    steps = range(-DECADES * STEPS_PER_DECADE, DECADES * STEPS_PER_DECADE + 1)
    return [(mu or 1.0) * 10 ** (step / STEPS_PER_DECADE) for step in steps]


def figure(df: pd.DataFrame, own: int | None = None) -> go.Figure:
    """e(K) solid with a star at its minimum, its terms dotted and dashed; ``own`` is the run's choice."""
    hue, muted, fig = color(style_of("cgpfl_heur")), theme().muted, go.Figure()
    for name, title, dash in (("capacity", "capacity", "dot"), ("weighted", "μ × spread", "dash")):
        fig.add_scatter(
            x=df["K"], y=df[name], mode="lines", name=title, line={"color": muted, "dash": dash, "width": 1.4}
        )
    fig.add_scatter(
        x=df["K"],
        y=df["e"],
        mode="lines+markers",
        name="e(K)",
        line={"color": hue, "width": 2.2},
        marker={"size": np.where(df["chosen"], 17, 6), "symbol": np.where(df["chosen"], "star", "circle")},
        marker_line_width=0,
        marker_opacity=1,
        hovertemplate="K = %{x}: e(K) = %{y:.4g}<extra></extra>",
    )
    if own is not None:
        fig.add_scatter(
            x=[own],
            y=df.loc[df["K"] == own, "e"],
            mode="markers",
            name="the run's choice",
            hoverinfo="skip",
            marker={"symbol": "star-open", "size": 26, "color": theme().ink, "line": {"width": 1.5}},
        )
    base_layout(fig, height=360)
    fig.update_xaxes(title_text="number of clusters K", dtick=max(1, len(df) // 10))
    fig.update_yaxes(title_text="e(K)", rangemode="tozero")
    return fig.update_layout(legend={"orientation": "h", "y": -0.25, "yanchor": "top", "x": 0})


def finding(df: pd.DataFrame, mu: float) -> str:
    """``With μ = 1000 the heuristic chooses K = 10.``"""
    return f"With μ = {number(mu)} the heuristic chooses K = {df.loc[df['chosen'], 'K'].iloc[0]}."
