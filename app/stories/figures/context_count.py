"""Accuracy by number of clusters: alone and together dotted, a star at the heuristic's choice, the run as a dot."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.bands import band
from app.components.moving_figure import RESULT, Moves
from app.stories.context_curve import CLUSTERS, NUM_CLIENTS, NUM_CONTEXTS, Example
from app.stories.figures.legend import explain

HEIGHT = 470
BREAK = 1.5  # from the last number that is counted up to, to "every client alone"
RIGHT = max(CLUSTERS[:-1]) + BREAK
TOP = 112  # of the axis, in percent
NAMED_AT = 7.5  # where no curve runs along a reference


def data(example: Example, up_to: int | None = None) -> pd.DataFrame:
    """[method, K, shown, mean, std, draws]: accuracy on the clients that are shown, and over all draws.

    ``up_to`` a number of clusters, without the heuristic; or all.
    """
    curve = zip(CLUSTERS, example.accuracies, strict=True)
    rows = [("cgpfl", K, accuracies) for K, accuracies in curve if up_to is None or up_to >= K]
    rows += [("cgpfl_heur", example.K_hat, example.heuristic)] if up_to is None else []
    rows += [
        ("local_train", np.nan, example.alone),
        ("fedavg", np.nan, example.together),
    ]
    return pd.DataFrame(
        [(method, K, found[0], found.mean(), found.std(ddof=1), len(found)) for method, K, found in rows],
        columns=["method", "K", "shown", "mean", "std", "draws"],
    )


def place(K: float) -> float:
    """Where a number of clusters lies on the axis, which is broken before the last."""
    return RIGHT if K == NUM_CLIENTS else K


def figure(df: pd.DataFrame, up_to: int | None = None) -> go.Figure:
    """The curve with its marks, or its part ``up_to`` a number of clusters; ``moving`` adds the reader's runs."""
    fig, curve = go.Figure(), df[df["method"] == "cgpfl"]
    ticks_at, most = [place(K) for K in curve["K"]], up_to or NUM_CLIENTS
    curve = curve[curve["K"] <= most]
    at = [place(K) for K in curve["K"]]
    color = palette.color(palette.style_of("cgpfl"))
    if most >= NUM_CONTEXTS:
        _add_truth(fig)
    fig.add_trace(band(at, 100 * curve["mean"], 100 * curve["std"], color))
    for method, words in (("local_train", "each alone"), ("fedavg", "one FedAvg model")):
        _add_reference(fig, method, f"{words} {_value(df, method):.0f} %", _value(df, method))
    parts = ((slice(None, -1), "solid"), (slice(-2, None), "dot")) if most == NUM_CLIENTS else ((slice(None), "solid"),)
    for part, dash in parts:
        fig.add_scatter(
            x=at[part],
            y=curve["mean"][part] * 100,
            mode="lines+markers",
            marker={"size": 7, "color": color},
            line={"color": color, "width": 3, "dash": dash},
            customdata=curve["K"][part],
            hovertemplate="K = %{customdata}: %{y:.0f} %, mean over the draws<extra></extra>",
        )
    if most < NUM_CLIENTS:
        _add_end(fig, curve)
    if up_to is None:
        _add_star(fig, df, color)
    fig.update_traces(meta=RESULT)
    ended, now = "your earlier run: %{y:.0f} %", "this run: %{y:.0f} %"
    fig.add_traces([live_traces.rings(ended), live_traces.way(), live_traces.dots(now)])
    palette.base_layout(fig, height=HEIGHT)
    explain(fig, f"line: mean of {df['draws'].iloc[0]} draws", at_top=True)
    fig.update_layout(showlegend=False, margin={"t": 12, "r": 24})
    ticks = [f"{K}" for K in CLUSTERS[:-1]] + [f"{NUM_CLIENTS}<br>alone"]
    fig.update_xaxes(
        tickvals=ticks_at,
        ticktext=["1<br>one cluster", *ticks[1:]],
        range=[0.4, RIGHT + 0.6],
        fixedrange=True,
        title_text="number of clusters K; larger = more personal",
    )
    ticks_y = list(range(0, 101, 20))  # and room for the note above the star
    fig.update_yaxes(range=[0, TOP], tickvals=ticks_y, title_text="mean client accuracy, %", fixedrange=True)
    return fig


def moving(K: float, accuracies: Sequence[float], ends: Sequence[tuple[float, float]]) -> Moves:
    """What changes while a run with ``K`` clusters trains: its dot, its way up, and where earlier runs ended."""
    x, now = place(K), [100 * accuracies[-1]] if accuracies else []
    return {
        "earlier runs": {"x": [place(end) for end, _ in ends], "y": [100 * accuracy for _, accuracy in ends]},
        "way": {"x": [x] * 2 * len(now), "y": [100 * accuracies[0], *now] if now else []},
        "your run": {"x": [x] * len(now), "y": now},
    }


def _value(df: pd.DataFrame, method: str) -> float:
    return float(100 * df.loc[df["method"] == method, "mean"].iloc[0])


def _add_truth(fig: go.Figure) -> None:
    shade = palette.theme()
    fig.add_scatter(
        x=[NUM_CONTEXTS] * 2, y=[0, 92], mode="lines", line={"color": shade.line, "width": 1.5}, hoverinfo="skip"
    )
    fig.add_scatter(
        x=[NUM_CONTEXTS],
        y=[3],
        mode="text",
        text=[f" {NUM_CONTEXTS} true contexts"],
        textposition="middle right",
        textfont_color=shade.muted,
        hoverinfo="skip",
    )


def _add_end(fig: go.Figure, curve: pd.DataFrame) -> None:
    """The last point of a part of the curve in words."""
    last = curve.iloc[-1]
    fig.add_scatter(
        x=[place(last["K"])],
        y=[100 * last["mean"]],
        mode="text",
        text=[f"  K = {last['K']:.0f}: {100 * last['mean']:.0f} %"],
        textposition="middle right",
        textfont_color=palette.theme().ink,
        hoverinfo="skip",
    )


def _add_reference(fig: go.Figure, method: str, words: str, value: float) -> None:
    style = palette.style_of(method)
    line = {"color": palette.color(style), "width": 2, "dash": style.dash}
    fig.add_scatter(x=[0.4, RIGHT + 0.6], y=[value, value], mode="lines", line=line, hoverinfo="skip")
    fig.add_scatter(
        x=[NAMED_AT],
        y=[value],
        mode="text",
        text=[words],
        textposition="top center",
        textfont_color=palette.theme().ink,
        hoverinfo="skip",
    )


def _add_star(fig: go.Figure, df: pd.DataFrame, color: str) -> None:
    K = int(df.loc[df["method"] == "cgpfl_heur", "K"].iloc[0])
    fig.add_scatter(
        x=[place(K)],
        y=[_value(df, "cgpfl_heur")],
        mode="markers+text",
        text=[f"heuristic: K = {K}"],
        textposition="top center",
        textfont_color=palette.theme().ink,
        marker={"symbol": "star", "size": 24, "color": color},
        hovertemplate=f"heuristic: K = {K}, %{{y:.0f}} %<extra></extra>",
    )
