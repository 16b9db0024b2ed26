"""The clients' models in the plane in which they differ most: cluster by color and letter, true context by shape.

Models of one cluster soon coincide, so each client is drawn on a small ring around its position.
"""

import string

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.segments import joined
from app.components.moving_figure import Moves
from app.stories.context_curve import NUM_CLIENTS
from app.stories.figures.square_plane import square_plane
from app.wording import percent

HEIGHT = 340
SYMBOLS = ("circle", "square", "diamond", "triangle-up")
SIZES = (21, 19, 24, 24)  # of the symbols, to look equally large
RING = 0.12  # radius, as a share of the extent


def data(
    places: np.ndarray, centers: np.ndarray, clusters: np.ndarray, accuracies: np.ndarray, num_contexts: int
) -> pd.DataFrame:
    """[client, context, cluster, letter, x, y, center_x, center_y, accuracy]; client i is of context i mod G."""
    clients = np.arange(len(places))
    return pd.DataFrame(
        {
            "client": clients,
            "context": clients % num_contexts,
            "cluster": clusters,
            "letter": [string.ascii_uppercase[cluster] for cluster in clusters],
            "x": places[:, 0],
            "y": places[:, 1],
            "center_x": centers[:, 0],
            "center_y": centers[:, 1],
            "accuracy": accuracies,
        }
    )


def figure(num_contexts: int, extent: float) -> go.Figure:
    """Lines join each client's model to its cluster's, the cross; ``moving`` sets all positions."""
    fig, shade = go.Figure(), palette.theme()
    fig.add_scatter(
        x=[], y=[], mode="lines", name="pull", line={"color": shade.muted, "width": 1}, opacity=0.7, hoverinfo="skip"
    )
    fig.add_scatter(
        x=[],
        y=[],
        mode="markers",
        name="cluster models",
        hovertemplate="model of cluster %{customdata}<extra></extra>",
        marker={"symbol": "cross-thin", "size": 15, "line": {"width": 2.5, "color": shade.ink}},
    )
    for context in range(num_contexts):
        fig.add_scatter(
            x=[],
            y=[],
            mode="markers+text",
            name=_name(context),
            textposition="middle center",
            textfont={"color": shade.paper, "size": 12, "family": palette.MONO},
            marker=_marker(context, []),
            hovertemplate="client %{customdata[0]}, true context " + f"{context + 1}"
            ": cluster %{customdata[1]}, %{customdata[2]}<extra></extra>",
        )
    palette.base_layout(fig, height=HEIGHT)
    fig.update_traces(textfont_size=12, selector={"mode": "markers+text"})
    return square_plane(fig, extent)


def moving(df: pd.DataFrame, extent: float) -> Moves:
    """The models as they are now, each client at its own position on the ring."""
    angle = 2 * np.pi * df["client"] / len(df)
    radius = RING * extent
    df = df.assign(x=df["x"] + radius * np.cos(angle), y=df["y"] + radius * np.sin(angle))
    centers = df.drop_duplicates("cluster").sort_values("cluster")
    moves = {
        "pull": {axis: joined(df[axis], df[f"center_{axis}"]) for axis in "xy"},
        "cluster models": {
            "x": centers["center_x"].tolist(),
            "y": centers["center_y"].tolist(),
            "customdata": centers["letter"].tolist(),
        },
    }
    for context, clients in df.groupby("context"):
        scores = [percent(a, 0) if np.isfinite(a) else "untrained" for a in clients["accuracy"]]
        moves[_name(context)] = {
            "x": clients["x"].tolist(),
            "y": clients["y"].tolist(),
            "text": clients["letter"].tolist(),
            "marker": _marker(context, clients["cluster"].tolist()),
            "customdata": [list(row) for row in zip(clients["client"], clients["letter"], scores, strict=True)],
        }
    return moves


def finding(df: pd.DataFrame) -> str:
    """The clusters' members: ``A: 5 of context 1; B: 5 of context 2 and 1 of context 3``."""
    parts = []
    for letter, members in df.groupby("letter"):
        counts = (members["context"] + 1).value_counts().sort_index()
        parts.append(f"{letter}: " + " and ".join(f"{n} of context {context}" for context, n in counts.items()))
    return "Clusters and the true contexts of their clients. " + "; ".join(parts)


def _name(context: object) -> str:
    return f"context {context}"


def _marker(context: int, clusters: list[int]) -> dict[str, object]:
    colors = palette.cluster_colors(NUM_CLIENTS)
    return {
        "symbol": SYMBOLS[context],
        "size": SIZES[context],
        "color": [colors[cluster] for cluster in clusters],
        "opacity": 1,
        "line": {"width": 1, "color": palette.theme().paper},
    }
