"""Features of samples in a plane: color shows the class and symbol the client, or vice versa."""

import html
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.annotations import annotate
from app.charts.plot.palette import base_layout, cluster_colors, group_symbol, theme
from app.wording import percent

Group = Literal["class", "client"]
MAX_NAMED = 20  # groups with an entry in the legend, or a name on the picture
OTHER: dict[Group, Group] = {"class": "client", "client": "class"}


def data(xy: np.ndarray, label: np.ndarray, client: np.ndarray, class_names: Sequence[str]) -> pd.DataFrame:
    """[n, 2] positions, classes and clients -> [x, y, class, class_name, client]."""
    names = [class_names[c] if c < len(class_names) else str(c) for c in label]
    return pd.DataFrame({"x": xy[:, 0], "y": xy[:, 1], "class": label, "class_name": names, "client": client})


def finding(measures: dict[Group, dict[str, float | None]], neighbors: int) -> str:
    """The share of neighbors of the same class, and of the same client, compared with chance."""
    parts = [
        f"{percent(of['agreement'], 1)} are of the same {group} (by chance {percent(of['chance'], 1)}; silhouette "
        f"{of['silhouette'] or 0:.2f})"
        for group, of in measures.items()
        if of["agreement"] is not None
    ]
    if not parts:
        return "All samples are of one class and one client."
    return f"Of the {neighbors} nearest neighbors of a sample, {', and '.join(parts)}.".replace("-", "−")


def figure(df: pd.DataFrame, by: Group = "class", client: int | None = None) -> go.Figure:
    """A trace per color; class names at the median of their samples; the chosen client's samples are ringed."""
    fig, shade, symbols = go.Figure(), theme(), OTHER[by]
    groups = sorted(df[by].unique())
    mark = {g: group_symbol(i) for i, g in enumerate(sorted(df[symbols].unique()))}
    for group, color in zip(groups, cluster_colors(len(groups)), strict=True):
        own = df[df[by] == group]
        fig.add_scatter(
            x=own["x"].to_numpy(np.float32),
            y=own["y"].to_numpy(np.float32),
            mode="markers",
            name=_name(own, by),
            showlegend=len(groups) <= MAX_NAMED,
            marker={"size": 7, "color": color, "opacity": 0.85, "symbol": [mark[g] for g in own[symbols]]},
            customdata=np.stack([own["class_name"], own["client"].astype(str)], axis=1),
            hovertemplate="class %{customdata[0]}, client %{customdata[1]}<extra></extra>",
        )
    if client is not None:
        own = df[df["client"] == client]
        fig.add_scatter(
            x=own["x"].to_numpy(np.float32),
            y=own["y"].to_numpy(np.float32),
            mode="markers",
            hoverinfo="skip",
            name=f"client {client}",
            marker={"size": 14, "symbol": "circle-open", "color": shade.ink},
        )
    base_layout(fig, height=560)
    fig.update_xaxes(showticklabels=False, ticks="", showline=False)
    fig.update_yaxes(showticklabels=False, ticks="", showgrid=False)
    if by == "class" and len(groups) <= MAX_NAMED:
        _name_classes(fig, df)
    return fig.update_layout(legend={"orientation": "h", "y": -0.02, "yanchor": "top", "x": 0}, margin_t=8)


def _name(own: pd.DataFrame, group: Group) -> str:
    return str(own["class_name"].iloc[0]) if group == "class" else f"client {own['client'].iloc[0]}"


def _name_classes(fig: go.Figure, df: pd.DataFrame) -> None:
    """Write each class's name at the median of its samples, in addition to its color."""
    annotate(
        fig,
        (
            {
                "x": float(own["x"].median()),
                "y": float(own["y"].median()),
                "text": f"<b>{html.escape(str(name))}</b>",
                "showarrow": False,
                "font": {"size": 13, "color": theme().ink},
                "bgcolor": theme().paper,
                "opacity": 0.85,
                "borderpad": 2,
            }
            for name, own in df.groupby("class_name")
        ),
    )
