"""The share of each class in one client's data, compared with all clients."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, theme, translucent
from app.wording import count, names, plural

MAX_CLASSES = 40
LONG_NAME = 9  # letters; longer names are rotated


def data(partition: Mapping[str, Any], client: int) -> pd.DataFrame:
    """-> [class, samples, share, everybody]; shares of the client's and of all samples, of its largest classes."""
    counts = np.asarray(partition["class_counts"], dtype=np.int64)
    titles = partition.get("class_names") or [str(c) for c in range(counts.shape[1])]
    own, total = counts[client], counts.sum(axis=0)
    table = pd.DataFrame(
        {
            "class": list(titles),
            "samples": own,
            "share": own / max(1, own.sum()),
            "everybody": total / max(1, total.sum()),
        }
    )
    if len(table) <= MAX_CLASSES:
        return table
    return table.nlargest(MAX_CLASSES, ["samples", "everybody"]).sort_index().reset_index(drop=True)


def finding(partition: Mapping[str, Any], client: int) -> str:
    """``2 625 training and 875 test samples of 4 of 10 classes; mostly Trouser (25 %, 10 % among all clients).``"""
    counts = np.asarray(partition["class_counts"], dtype=np.int64)
    own, total = counts[client], counts.sum(axis=0)
    train, test = (count(partition[f"{part}_sizes"][client]) for part in ("train", "test"))
    val = partition["val_sizes"][client] if partition.get("val_sizes") else 0
    parts = names(filter(None, [f"{train} training", f"{count(val)} validation" if val else "", f"{test} test"]))
    samples = "sample" if partition["test_sizes"][client] == 1 else "samples"
    classes = f"{(own > 0).sum()} of {plural(len(own), 'class', 'classes')}"
    held = f"{parts} {samples} of {classes}"
    if not own.sum():
        return f"{held}."
    titles = partition.get("class_names") or [str(c) for c in range(len(own))]
    most = np.flatnonzero(own == own.max())
    share, overall = own[most[0]] / own.sum(), total[most[0]] / total.sum()
    shares = f"{100 * share:.0f} %" + (" each" if len(most) > 1 else f", {100 * overall:.0f} % among all clients")
    return f"{held}; mostly {names((titles[c] for c in most), 4)} ({shares})."


def figure(df: pd.DataFrame) -> go.Figure:
    """Bars for the client, a short line across each for all clients together."""
    shade = theme()
    percents = 100 * df["share"].to_numpy(np.float32)
    fig = go.Figure(
        go.Bar(
            x=df["class"].astype(str),
            y=percents,
            name="this client",
            customdata=[plural(int(n), "sample") for n in df["samples"]],
            marker={"color": translucent(shade.accent, 0.5), "line_width": 0},
            hovertemplate="%{x}: %{y:.1f} %, %{customdata}<extra></extra>",
        )
    )
    fig.add_scatter(
        x=df["class"].astype(str),
        y=100 * df["everybody"].to_numpy(np.float32),
        mode="markers",
        name="all clients",
        marker={"symbol": "line-ew", "size": 16, "line": {"color": shade.ink, "width": 2.5}},
        hovertemplate="%{x}: %{y:.1f} % of all clients' samples<extra></extra>",
    )
    base_layout(fig, height=320)
    fig.update_xaxes(type="category", tickangle=-60 if df["class"].astype(str).str.len().max() > LONG_NAME else None)
    fig.update_yaxes(title_text="% of samples", rangemode="tozero")
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"}
    return fig.update_layout(bargap=0.3, showlegend=True, legend=legend, margin_t=30)
