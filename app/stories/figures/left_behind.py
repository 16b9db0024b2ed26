"""Accuracy of every client under two methods, in the order of the first, the lowest 5 % of each marked and named."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.segments import joined
from app.components.moving_figure import Moves
from app.stories.sharpness_curve import NUM_CLIENTS, NUM_LEFT_BEHIND
from app.wording import percent

MIN_SIZE, MAX_SIZE = 8, 17  # of a mark, for the fewest and the most samples
KEY_AT = (1, 11, 21)  # places on the axis
BEFORE, NOW = "FedAvg", "chosen"


def data(accuracies: np.ndarray, order_by: np.ndarray, train_sizes: np.ndarray, digits: Sequence[str]) -> pd.DataFrame:
    """[client, place, samples, digits, before, now, is_low_before, is_low_now] of accuracies [2, N], lowest first."""
    order = np.argsort(order_by, kind="stable")
    before, now = accuracies[:, order]
    return pd.DataFrame(
        {
            "client": order,
            "place": np.arange(1, len(order) + 1),
            "samples": train_sizes[order],
            "digits": [digits[i] for i in order],
            "before": before,
            "now": now,
            "is_low_before": _is_low(before),
            "is_low_now": _is_low(now),
        }
    )


def figure(rho: float, *, height: int) -> go.Figure:
    """Rings are FedAvg, dots the radius; a mark is as large as the client has samples; see ``moving``."""
    fig, shade = go.Figure(), palette.theme()
    fedavg, fedsam = (palette.color(palette.style_of(name)) for name in ("fedavg", "fedsam"))
    hover = "client %{customdata[0]}: %{y:.0f} %, %{customdata[1]} training images of %{customdata[2]}<extra></extra>"
    fig.add_scatter(
        x=[], y=[], mode="lines", name="change", line={"color": shade.muted, "width": 1}, opacity=0.6, hoverinfo="skip"
    )
    fig.add_scatter(
        x=[],
        y=[],
        mode="markers",
        name=BEFORE,
        hovertemplate="FedAvg, " + hover,
        marker={"symbol": "circle-open", "color": fedavg, "line": {"width": 2}},
    )
    fig.add_scatter(
        x=[], y=[], mode="markers", name=NOW, hovertemplate=f"ρ = {rho:g}, " + hover, marker={"color": fedsam}
    )
    fig.add_scatter(
        x=[],
        y=[],
        mode="markers",
        name="left behind",
        hoverinfo="skip",
        marker={"symbol": "square-open", "size": 24, "color": shade.ink, "line": {"width": 2}},
    )
    fig.add_scatter(
        x=[], y=[], mode="text", name="who", textposition="middle right", textfont_color=shade.ink, hoverinfo="skip"
    )
    palette.base_layout(fig, height=height)
    _add_key(fig, rho, fedavg, fedsam)
    fig.update_layout(showlegend=False, margin={"t": 12, "r": 24})
    fig.update_xaxes(
        range=[0, NUM_CLIENTS + 1.5],
        showticklabels=False,
        ticks="",
        fixedrange=True,
        title_text=f"{NUM_CLIENTS} clients, least accurate first; larger = more samples",
    )
    fig.update_yaxes(
        range=[-4, 118], tickvals=[0, 20, 40, 60, 80, 100], title_text="client accuracy, %", fixedrange=True
    )
    return fig


def moving(df: pd.DataFrame, rho: float) -> Moves:
    """The clients as they are now. Without a radius there is FedAvg alone, and it is drawn once."""
    hover = df[["client", "samples", "digits"]].to_numpy().tolist()
    scale = df["samples"] / df["samples"].max()
    sizes = (MIN_SIZE + (MAX_SIZE - MIN_SIZE) * scale).round(1).tolist()
    fedavg, fedsam = (palette.color(palette.style_of(name)) for name in ("fedavg", "fedsam"))
    low, beside = df[df["is_low_now"]], df if rho else df.head(0)
    return {
        "change": {
            "x": joined(beside["place"], beside["place"]),
            "y": joined(100 * beside["before"], 100 * beside["now"]),
        },
        BEFORE: {
            "x": df["place"].tolist(),
            "y": (100 * df["before"]).tolist(),
            "customdata": hover,
            "marker": {"symbol": "circle-open", "size": sizes, "color": fedavg, "line": {"width": 2}},
        },
        NOW: {
            "x": beside["place"].tolist(),
            "y": (100 * beside["now"]).tolist(),
            "customdata": hover[: len(beside)],
            "marker": {"size": sizes[: len(beside)], "color": fedsam},
        },
        "left behind": {"x": low["place"].tolist(), "y": (100 * low["now"]).tolist()},
        "who": _who(low.sort_values("now")),
    }


def finding(df: pd.DataFrame, rho: float) -> str:
    """``Lowest 5 %: 58.00 % at rho = 0.2, 51.00 % with FedAvg; these 2 of 40 clients have 7 images of 1 and 8, ...``"""
    low = df[df["is_low_now"]]
    who = ", ".join(f"{row.samples} images of {_digits(row.digits)}" for row in low.itertuples())
    before = float(df.loc[df["is_low_before"], "before"].mean())
    if not rho:
        return f"Lowest 5 %: {percent(before, 0)} with FedAvg; these {len(low)} of {len(df)} clients have {who}"
    return (
        f"Lowest 5 %: {percent(float(low['now'].mean()), 0)} at rho = {rho:g}, {percent(before, 0)} with FedAvg; "
        f"these {len(low)} of {len(df)} clients have {who}"
    )


def _who(low: pd.DataFrame) -> dict[str, list[object]]:
    """The lowest clients in words, one line each below their marks, or above where there is no room."""
    below = 100 * low["now"].min() - 9 * np.arange(1, len(low) + 1)
    above = 100 * low["now"].max() + 9 * np.arange(1, len(low) + 1)
    labels = [f"{percent(row.now, 0)}: {row.samples} images of {_digits(row.digits)}" for row in low.itertuples()]
    return {
        "x": [float(low["place"].min())] * len(low),
        "y": (below if below[-1] > 0 else above).tolist(),
        "text": labels,
    }


def _is_low(accuracies: np.ndarray) -> np.ndarray:
    """The lowest 5 %, the first of equals."""
    is_low = np.zeros(len(accuracies), bool)
    is_low[np.argsort(accuracies, kind="stable")[:NUM_LEFT_BEHIND]] = True
    return is_low


def _digits(held: str) -> str:
    return " and ".join(held)


def _add_key(fig: go.Figure, rho: float, fedavg: str, fedsam: str) -> None:
    """What the marks are, in a line above the clients."""
    rows = [
        ("circle-open", fedavg, "FedAvg"),
        ("circle", fedsam, f"ρ = {rho:g}"),
        ("square-open", palette.theme().ink, f"lowest 5 %: {NUM_LEFT_BEHIND} of {NUM_CLIENTS}"),
    ]
    if not rho:
        del rows[1]
    for i, (symbol, color, words) in enumerate(rows):
        fig.add_scatter(
            x=[KEY_AT[i]],
            y=[113],
            mode="markers+text",
            text=[f"  {words}"],
            textposition="middle right",
            textfont_color=palette.theme().ink,
            hoverinfo="skip",
            marker={"symbol": symbol, "color": color, "size": 13, "line": {"width": 2}},
        )
