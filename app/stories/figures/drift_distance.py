"""The distance of the shared model from the minimum, by round, on a logarithmic axis."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.line_labels import End, label_ends
from app.components.moving_figure import RESULT, Moves
from app.stories.drift_run import ROUNDS

HEIGHT = 210
MIN_DISTANCE = 1e-3  # what lies below is drawn here: no reader can see it in the plane
METHODS = {"FedAvg": "fedavg", "SCAFFOLD": "scaffold"}


def data(distances: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Distances [rounds + 1] of each method -> [method, round, distance]."""
    rows = [(method, r, float(d)) for method, own in distances.items() for r, d in enumerate(own)]
    return pd.DataFrame(rows, columns=["method", "round", "distance"])


def figure(df: pd.DataFrame) -> go.Figure:
    """Pale: the whole runs of ``df``; ``moving`` adds the rounds so far."""
    fig, ends = go.Figure(), []
    for method, own in df.groupby("method"):
        style = palette.style_of(METHODS[str(method)])
        color, y = palette.color(style), np.maximum(own["distance"], MIN_DISTANCE)
        line = {"color": color, "width": 2.5, "dash": style.dash}
        fig.add_scatter(
            x=own["round"],
            y=y,
            mode="lines",
            line={"color": color, "width": 1},
            opacity=0.45,
            hoverinfo="skip",
            meta=RESULT,
        )
        fig.add_scatter(
            x=[],
            y=[],
            mode="lines",
            name=str(method),
            line=line,
            hovertemplate=f"{method}, round %{{x}}: %{{y:.3f}} away<extra></extra>",
        )
        ends.append(End(str(method), None, float(np.log10(y.iloc[-1])), color))
    palette.base_layout(fig, height=HEIGHT)
    low, high = np.log10([0.8 * MIN_DISTANCE, 8])
    label_ends(fig, ends, low, high, lines=10)
    fig.update_annotations(name=RESULT)
    fig.update_layout(showlegend=False, margin_t=8)
    fig.update_xaxes(range=[0, ROUNDS], title_text="round", fixedrange=True)
    fig.update_yaxes(
        type="log",
        range=[low, high],
        tickvals=[0.001, 0.01, 0.1, 1],
        ticktext=["≤ 0.001", "0.01", "0.1", "1"],
        title_text="distance, log",
        fixedrange=True,
    )
    return fig


def moving(df: pd.DataFrame) -> Moves:
    return {
        str(method): {"x": own["round"].tolist(), "y": np.maximum(own["distance"], MIN_DISTANCE).tolist()}
        for method, own in df.groupby("method")
    }
