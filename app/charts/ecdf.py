"""The share of clients at or below an accuracy: the whole distribution.

Two methods are highlighted; the others are gray.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.annotations import SERIES
from app.charts.plot.curve_labels import Curve, name_curves
from app.charts.plot.method_styles import Look, looks
from app.charts.plot.palette import base_layout, theme, translucent
from app.data.comparison import REFERENCES, unit_of
from app.data.thinning import evenly
from app.wording import clients as in_words
from app.wording import names, percent

MAX_LINES, MAX_STEPS = 12, 300
HEIGHTS = (0.0, 102.0)


def data(clients: pd.DataFrame) -> pd.DataFrame:
    """[method, algorithm, seed, client, accuracy, ...] -> the same clients by accuracy, with the ``share`` at or below.

    Seeds are pooled: every client of every seed is one step. ``split`` is a column where data have seeds of their own.
    """
    known = clients.dropna(subset=["accuracy"])
    ordered = [
        own.sort_values(["accuracy", "seed", "client"]).assign(share=np.arange(1, len(own) + 1) / len(own))
        for _, own in known.groupby("method", sort=False)
    ]
    split = ["split"] if "split" in known and unit_of(known) == "split" else []
    columns = ["run", "method", "algorithm", *split, "seed", "client", "accuracy", "share", "test_size"]
    return pd.concat(ordered)[columns].reset_index(drop=True) if ordered else pd.DataFrame(columns=columns)


def finding(df: pd.DataFrame, drawn: Sequence[str], are_benign: bool = False) -> str:
    """``Distribution of the accuracy of 20 clients in each of 3 runs under FedAvg and Ditto``."""
    own = df[df["method"].isin(drawn)]
    count, seeds = own.groupby("run")["client"].nunique().max(), own.groupby("method")["run"].nunique().max()
    each = f" in each of {seeds} runs" if seeds > 1 else ""
    who = in_words(int(count), are_benign)
    return f"Distribution of the accuracy of {who}{each} under {names(drawn, 12)}"


def figure(
    df: pd.DataFrame,
    share: float = 0.05,
    drawn: Sequence[str] | None = None,
    method: str = "",
    baseline: str = "",
    chosen: Sequence[int] = (),
) -> go.Figure:
    """A step curve per method of ``drawn``: ``method`` in its color, ``baseline`` in the text color, the others gray.

    Without a ``method`` all have their colors. The ``chosen`` clients are marked on both curves. A dotted line marks
    the lowest ``share`` of the clients.
    """
    look, fig, curves = looks(df), go.Figure(), list[Curve]()
    names_drawn = list(df["method"].unique() if drawn is None else drawn)[:MAX_LINES]
    for name in sorted(names_drawn, key=lambda name: (name == method, name == baseline)):  # the last is on top
        style, own = look[name], df[df["method"] == name]
        stands_out = name in (method, baseline)
        color = _color(style, own, name, method, baseline)
        line = {"shape": "hv", "color": color, "dash": style.dash, "width": 1.1 if method and not stands_out else 2.2}
        stairs = _stairs(name, own.iloc[evenly(len(own), MAX_STEPS)], line, style.symbol, can_select=name == method)
        fig.add_trace(stairs)
        curves.append(Curve(name, np.asarray(stairs.x, float), np.asarray(stairs.y, float), color, stands_out))
        if stands_out and chosen:
            fig.add_trace(_marks(name, own[own["client"].isin(chosen)], color))
    base_layout(fig, height=400)
    fig.add_hline(y=100 * share, line={"color": theme().muted, "width": 1, "dash": "dot"})
    tail = f"lowest {100 * share:g} %"
    fig.add_annotation(
        xref="paper",
        x=1,
        y=100 * share,
        text=tail,
        showarrow=False,
        xanchor="right",
        yanchor="bottom",
        font={"color": theme().muted},
        bgcolor=translucent(theme().paper, 0.75),
    )
    accuracy = df.loc[df["method"].isin(names_drawn), "accuracy"]
    ends = 100 * float(accuracy.min()), 100 * float(accuracy.max())
    pad = 0.03 * (ends[1] - ends[0]) or 1.0
    across = (ends[0] - pad, ends[1] + pad)
    if left_out := name_curves(fig, curves[::-1], across, HEIGHTS, [(tail, 100 * share)]):
        _name_above(fig, f"without a label: {names(left_out)}")
    fig.update_xaxes(title_text="test accuracy, %", range=across)
    fig.update_yaxes(title_text="% of clients at or below", range=HEIGHTS)
    if method:
        fig.update_layout(dragmode="select", selectdirection="h")
    return fig.update_layout(showlegend=False)


def _name_above(fig: go.Figure, text: str) -> None:
    """Writes the names of curves without room for a label above the plot."""
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
    fig.add_annotation(name=SERIES, text=text, showarrow=False, font={"color": theme().muted}, **place)
    fig.update_layout(margin_t=32)


def _color(style: Look, own: pd.DataFrame, name: str, method: str, baseline: str) -> str:
    """The color of a curve. A highlighted reference has the accent color, since gray marks the others here."""
    if not method:
        return style.color
    if name == method:
        return theme().accent if own["algorithm"].isin(REFERENCES).any() else style.color
    return theme().ink if name == baseline else theme().muted


def _stairs(name: str, own: pd.DataFrame, line: dict[str, object], symbol: str, can_select: bool) -> go.Scatter:
    """Plotly selects only markers, so each selectable step has an invisible one; print shows some of them."""
    x, y = 100 * own["accuracy"].to_numpy(np.float32), 100 * own["share"].to_numpy(np.float32)
    who, unseen = own[["client", "seed", "run"]].to_numpy(), {"marker": {"opacity": 0}}
    return go.Scatter(
        x=np.insert(x, 0, x[0]),
        y=np.insert(y, 0, 0),
        name=name,
        mode="lines+markers" if can_select else "lines",
        line=line,
        marker={"opacity": 0, "size": 8, "symbol": symbol},
        **({"selected": unseen, "unselected": unseen} if can_select else {}),
        customdata=np.insert(who, 0, who[0], axis=0).astype(np.int32),
        text=_texts(own.iloc[[0, *range(len(own))]]),
        hovertemplate=f"{name}: %{{text}}; %{{y:.0f}} % of clients at or below<extra></extra>",
    )


def _marks(name: str, own: pd.DataFrame, color: str) -> go.Scatter:
    """The chosen clients, on their steps."""
    return go.Scatter(
        x=100 * own["accuracy"],
        y=100 * own["share"],
        mode="markers",
        marker={"color": color, "size": 9, "line": {"width": 1.5, "color": theme().paper}},
        customdata=own[["client", "seed", "run"]].to_numpy(),
        hovertext=[f"{name}: {text}" for text in _texts(own)],
        hoverinfo="text",
    )


def _texts(own: pd.DataFrame) -> list[str]:
    """``client 3, seed 0<br>97 %``, with its split where that is a column."""
    splits = [f"split {split}, " for split in own["split"]] if "split" in own else [""] * len(own)
    return [
        f"client {row.client}, {split}seed {row.seed}<br>{percent(row.accuracy, samples=row.test_size)}"
        for split, row in zip(splits, own.itertuples(), strict=True)
    ]


def mark(fig: go.Figure, accuracy: float, name: str) -> None:
    """A vertical line at one client's accuracy."""
    fig.add_vline(100 * accuracy, line={"color": theme().ink, "width": 1.5, "dash": "dash"})
    fig.add_annotation(x=100 * accuracy, yref="paper", y=1, text=name, showarrow=False, yanchor="bottom")
    fig.update_layout(margin_t=32)
