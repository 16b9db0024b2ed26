"""Clients by accuracy: a row of bars per method, in the same bins for all.

After figure 6 of Qu et al., How to Prevent the Poor Performance Clients for Personalized Federated Learning? CVPR 2023.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme, translucent
from app.wording import percent, plural

BINS = 20  # of 5 points each, from 0 to 100 %, whatever is shown
WIDTH = 1 / BINS
MAX_ROWS = 12
MAX_HEIGHT = 0.86  # of the distance between two rows
ROUNDING = 1e-6  # accuracies are stored in single precision


def data(clients: pd.DataFrame) -> pd.DataFrame:
    """[method, algorithm, accuracy, ...] -> [method, algorithm, start, end, clients, share]: every bin of every method.

    A client on an edge counts in the bin above it, 100 % in the last. Runs are pooled: each client of each counts once.
    """
    known = clients.dropna(subset=["accuracy"])
    rows = []
    for (method, algorithm), own in known.groupby(["method", "algorithm"], sort=False):
        places = np.floor(own["accuracy"].to_numpy(float) * BINS + ROUNDING).astype(int).clip(0, BINS - 1)
        count = np.bincount(places, minlength=BINS)
        rows.append(
            pd.DataFrame(
                {
                    "method": method,
                    "algorithm": algorithm,
                    "start": np.arange(BINS) / BINS,
                    "end": np.arange(1, BINS + 1) / BINS,
                    "clients": count,
                    "share": count / len(own),
                }
            )
        )
    columns = ["method", "algorithm", "start", "end", "clients", "share"]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)


def figure(df: pd.DataFrame, drawn: Sequence[str] | None = None, clients: pd.DataFrame | None = None) -> go.Figure:
    """One baseline per method of ``drawn``; one scale for all rows, set by the fullest bin.

    ``clients`` [method, client, accuracy, samples] are marked on their method's baseline.
    """
    look, fig = looks(df), go.Figure()
    methods = list(df["method"].unique() if drawn is None else drawn)[:MAX_ROWS]
    shown = df[df["method"].isin(methods)]
    tallest = shown["share"].max() or 1.0
    for at, method in enumerate(methods):
        own, color = shown[shown["method"] == method], look[method].color
        own = own[own["clients"] > 0]
        fig.add_bar(
            x=100 * (own["start"] + own["end"]) / 2,
            y=MAX_HEIGHT * own["share"] / tallest,
            base=-at,
            width=100 * WIDTH,
            marker={"color": translucent(color, 0.55), "line": {"width": 1, "color": color}},
            customdata=[
                f"{plural(row.clients, 'client')} ({100 * row.share:.0f} %) from {100 * row.start:.0f} to "
                f"{100 * row.end:.0f} %"
                for row in own.itertuples()
            ],
            hovertemplate=f"{method}<br>%{{customdata}}<extra></extra>",
        )
    marked = pd.DataFrame() if clients is None else clients[clients["method"].isin(methods)]
    if not marked.empty:
        fig.add_scatter(
            x=100 * marked["accuracy"],
            y=[-methods.index(method) for method in marked["method"]],
            mode="markers",
            marker={"color": theme().ink, "size": 6},
            hovertext=[
                f"{row.method}: client {row.client}, {percent(row.accuracy, samples=row.samples)}"
                for row in marked.itertuples()
            ],
            hoverinfo="text",
        )
    base_layout(fig, height=max(300, 90 + 46 * len(methods)))
    occupied = shown[shown["clients"] > 0]
    fig.update_xaxes(title_text="test accuracy, %", range=[100 * occupied["start"].min(), 100 * occupied["end"].max()])
    fig.update_yaxes(
        tickvals=[-at for at in range(len(methods))],
        ticktext=methods,
        range=[-len(methods) + 0.9, 1.05],
        ticks="",
        gridcolor=theme().line,
    )
    return fig.update_layout(showlegend=False, barmode="overlay", bargap=0)


def finding(df: pd.DataFrame) -> str:
    """``Under Ditto no client is below 75 %.``: the method with the highest minimum."""
    floors = df[df["clients"] > 0].groupby("method", sort=False)["start"].min()
    best = floors[floors == floors.max()]
    others = len(best) - 1
    many = f" and {others} other{'s' if others > 1 else ''}" if others else ""
    if not best.iloc[0]:
        return f"Under every method, some client is below {percent(df['end'].min(), 0)}."
    return f"Under {best.index[0]}{many}, no client is below {percent(best.iloc[0], 0)}."
