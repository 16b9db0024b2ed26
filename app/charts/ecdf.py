"""The share of clients at or below an accuracy: the whole distribution, not two of its numbers."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, ground
from app.data.thinning import evenly
from app.wording import names, percent, plural

MOST_LINES, MOST_STEPS = 12, 300


def data(clients: pd.DataFrame) -> pd.DataFrame:
    """[method, algorithm, seed, client, accuracy, ...] -> the same clients by accuracy, with the ``share`` at or below.

    Seeds are pooled: every client of every seed is one step.
    """
    known = clients.dropna(subset=["accuracy"])
    ordered = [
        own.sort_values(["accuracy", "seed", "client"]).assign(share=np.arange(1, len(own) + 1) / len(own))
        for _, own in known.groupby("method", sort=False)
    ]
    columns = ["run", "method", "algorithm", "seed", "client", "accuracy", "share", "test_size"]
    return pd.concat(ordered)[columns].reset_index(drop=True) if ordered else pd.DataFrame(columns=columns)


def finding(df: pd.DataFrame, drawn: Sequence[str]) -> str:
    """``Distribution of the accuracy of 20 clients in each of 3 runs under FedAvg and Ditto``."""
    own = df[df["method"].isin(drawn)]
    clients, seeds = own.groupby("run")["client"].nunique().max(), own.groupby("method")["run"].nunique().max()
    each = f" in each of {seeds} runs" if seeds > 1 else ""
    who = plural(int(clients), "client")
    return f"Distribution of the accuracy of {who}{each} under {names(drawn, 12)}"


def figure(df: pd.DataFrame, share: float = 0.05, drawn: Sequence[str] | None = None) -> go.Figure:
    """A step curve for each method of ``drawn``; a dotted line marks the lowest ``share`` of the clients."""
    look, fig = looks(df), go.Figure()
    for method in list(df["method"].unique() if drawn is None else drawn)[:MOST_LINES]:
        style, own = look[method], df[df["method"] == method]
        own = own.iloc[evenly(len(own), MOST_STEPS)]
        x, y = 100 * own["accuracy"].to_numpy(np.float32), 100 * own["share"].to_numpy(np.float32)
        who = own[["client", "seed", "run"]].to_numpy()
        fig.add_scatter(
            x=np.insert(x, 0, x[0]),
            y=np.insert(y, 0, 0),
            name=method,
            mode="lines",
            line={"shape": "hv", "color": style.color, "dash": style.dash, "width": 2},
            customdata=np.insert(who, 0, who[0], axis=0).astype(np.int32),
            text=_percents(own.iloc[[0, *range(len(own))]]),
            hovertemplate=f"{method}: client %{{customdata[0]}}, seed %{{customdata[1]}}<br>"
            "%{text}; %{y:.0f} % of clients at or below<extra></extra>",
        )
    base_layout(fig, height=430)
    fig.add_hline(y=100 * share, line={"color": ground().muted, "width": 1, "dash": "dot"})
    fig.add_annotation(
        xref="paper",
        x=1,
        y=100 * share,
        text=f"lowest {100 * share:g} %",
        showarrow=False,
        xanchor="right",
        yanchor="bottom",
        font={"color": ground().muted},
    )
    fig.update_xaxes(title_text="test accuracy, %")
    fig.update_yaxes(title_text="% of clients at or below", range=[0, 102])
    return fig.update_layout(legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0, "itemwidth": 40})


def _percents(own: pd.DataFrame) -> list[str]:
    return [percent(row.accuracy, samples=row.test_size) for row in own.itertuples()]


def mark(fig: go.Figure, accuracy: float, name: str) -> None:
    """A vertical line at one client's accuracy."""
    fig.add_vline(100 * accuracy, line={"color": ground().ink, "width": 1.5, "dash": "dash"})
    fig.add_annotation(x=100 * accuracy, yref="paper", y=1, text=name, showarrow=False, yanchor="bottom")
    fig.update_layout(margin_t=32)
