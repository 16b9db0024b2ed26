"""The number of clients in each cluster by round."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.palette import base_layout, cluster_colors, group_dash, theme
from app.wording import plural

MAX_LINES = 12


def data(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells of the raster -> [round, cluster, letter, clients]; 0 in rounds without members."""
    letters = cells.drop_duplicates("cluster").set_index("cluster")["letter"]
    counts = cells.groupby(["cluster", "round"]).size().unstack(fill_value=0)
    table = counts.stack().rename("clients").reset_index()
    table.insert(2, "letter", table["cluster"].map(letters))
    return table[["round", "cluster", "letter", "clients"]]


def figure(df: pd.DataFrame, at: int) -> go.Figure:
    """A line per cluster, with its letter and final size at the end; the twelve largest."""
    fig, ends = go.Figure(), []
    colors = cluster_colors(int(df["cluster"].max()) + 1)
    for cluster, own in df[df["cluster"] < MAX_LINES].groupby("cluster"):
        hue, name, last = colors[cluster], own["letter"].iloc[0], int(own["clients"].iloc[-1])
        fig.add_scatter(
            x=own["round"],
            y=own["clients"].astype(np.float32),
            mode="lines",
            name=name,
            line={"color": hue, "width": 2, "dash": group_dash(int(cluster)), "shape": "hv"},
            hovertemplate=f"round %{{x}}: %{{y:.0f}} in {name}<extra></extra>",
        )
        ends.append(End(f"<b>{name}</b> · {last}", None, last, hue))
    fig.add_vline(x=at, line={"color": theme().muted, "width": 1, "dash": "dot"})
    base_layout(fig, height=300)
    top = float(df["clients"].max())
    label_ends(fig, ends[::-1], 0, top, lines=14)
    fig.update_xaxes(title_text="round")
    fig.update_yaxes(title_text="clients", range=[-0.04 * top, 1.06 * top])
    return fig.update_layout(showlegend=False, margin_r=64)


def finding(df: pd.DataFrame) -> str:
    """``4 clusters in the last round, of 9 to 12 clients.``"""
    last = df[(df["round"] == df["round"].max()) & (df["clients"] > 0)]["clients"]
    span = f"{last.min()}" if last.min() == last.max() else f"{last.min()} to {last.max()}"
    unit = "client" if last.max() == 1 else "clients"
    used = plural(len(last), "cluster")
    return f"{used} in the last round, of {span} {unit}."
