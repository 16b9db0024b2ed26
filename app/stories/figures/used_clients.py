"""Each client under two methods, by its digits; a cross under the first is a client whose uploads were never used."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.segments import joined
from app.components.moving_figure import Moves

HEIGHT = 280
MARKS = USED, NEVER, OTHER = "used", "never used", "other"


def data(digits: np.ndarray, first: np.ndarray, other: np.ndarray, used: np.ndarray) -> pd.DataFrame:
    """[client, digit, first, other, is_used] of mean digits, accuracies and counts of used uploads, [N] each."""
    accuracies = {"first": 100 * np.asarray(first, float), "other": 100 * np.asarray(other, float)}
    is_used = np.asarray(used) > 0
    return pd.DataFrame({"client": np.arange(len(digits)), "digit": digits, **accuracies, "is_used": is_used})


def figure(first: str, other: str, color: str) -> go.Figure:
    """``color`` is that of the first method; see ``moving``."""
    fig, shade = go.Figure(), palette.theme()
    line = {"color": shade.muted, "width": 1}
    fig.add_scatter(x=[], y=[], mode="lines", name="pairs", line=line, opacity=0.6, hoverinfo="skip")
    looks = {
        OTHER: (other, {"symbol": "diamond", "size": 8, "color": shade.accent}),
        USED: (first, {"symbol": "circle", "size": 9, "color": color}),
        NEVER: (f"{first}, never used", {"symbol": "x", "size": 9, "color": color}),
    }
    for name, (words, marker) in looks.items():
        hover = f"{words}, client %{{customdata}}: %{{y:.0f}} %<extra></extra>"
        fig.add_scatter(x=[], y=[], mode="markers", name=name, marker=marker, hovertemplate=hover)
    palette.base_layout(fig, height=HEIGHT)
    fig.update_layout(showlegend=False, margin_t=8)
    fig.update_xaxes(range=[0.3, 8.7], tickvals=list(range(1, 9)), title_text="mean digit of a client", fixedrange=True)
    fig.update_yaxes(range=[-4, 104], tickvals=list(range(0, 101, 20)), title_text="accuracy, %", fixedrange=True)
    return fig


def moving(df: pd.DataFrame) -> Moves:
    """The clients as they are now."""
    rows = {OTHER: (df, "other"), USED: (df[df["is_used"]], "first"), NEVER: (df[~df["is_used"]], "first")}
    marks = {
        name: {"x": own["digit"].tolist(), "y": own[which].tolist(), "customdata": own["client"].tolist()}
        for name, (own, which) in rows.items()
    }
    pairs = {"x": joined(df["digit"], df["digit"]), "y": joined(df["first"], df["other"])}
    return {**marks, "pairs": pairs}


def finding(df: pd.DataFrame, first: str, other: str) -> str:
    """The figure in a sentence, for screen readers."""
    never = df[~df["is_used"]]
    if never.empty:
        return f"{first} uses uploads of all {len(df)} clients"
    return (
        f"{first} never uses an upload of {len(never)} of {len(df)} clients, who reach {never['first'].mean():.0f} % "
        f"with it and {never['other'].mean():.0f} % with {other}"
    )
