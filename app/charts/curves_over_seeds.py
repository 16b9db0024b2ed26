"""Accuracy over rounds, megabytes, gradients or seconds: the mean over clients and its lowest 5 %, over seeds."""

from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.line_ends import End, label_ends
from app.method_looks import looks
from app.palette import base_layout, translucent

Axis = Literal["round", "megabytes", "gradient_evaluations", "seconds"]
AXIS_TITLES: dict[Axis, str] = {
    "round": "round", "megabytes": "megabytes sent, both ways", "gradient_evaluations": "gradient evaluations",
    "seconds": "seconds of training",
}  # fmt: skip
COSTS = ("bytes_up", "bytes_down", "gradient_evaluations", "seconds")
MOST_POINTS, MOST_LINES, MOST_BANDS = 300, 12, 3
MOST_DASHED = MOST_LINES // 2  # methods that have room for a second line


def data(series: pd.DataFrame, model: str = "personalized", x: Axis = "round") -> pd.DataFrame:
    """[method, algorithm, seed, round, name, value] -> [method, algorithm, round, x, mean, mean_pm, lowest, seeds].

    Only rounds that every seed of a method has; x is what was spent up to that round, its mean over seeds.
    """
    keys = ["method", "algorithm", "seed", "round"]
    wide = series.pivot_table(index=keys, columns="name", values="value", sort=False).reset_index()
    wide = wide.reindex(columns=[*keys, f"{model}.mean", f"{model}.lowest5", *COSTS]).sort_values(
        keys[2:], kind="stable"
    )
    spent = wide.groupby(["method", "seed"], sort=False)[list(COSTS)].cumsum()
    spent["megabytes"] = (spent["bytes_up"] + spent["bytes_down"]) / 1e6
    wide["x"] = wide["round"] if x == "round" else spent[x]
    known = wide.rename(columns={f"{model}.mean": "mean", f"{model}.lowest5": "lowest"}).dropna(subset=["mean"])
    rows = known.groupby(["method", "algorithm", "round"], sort=False).agg(
        x=("x", "mean"), mean_pm=("mean", "std"), mean=("mean", "mean"), lowest=("lowest", "mean"),
        seeds=("seed", "nunique"),
    ).reset_index()  # fmt: skip
    complete = rows[rows["seeds"] == rows.groupby("method")["seeds"].transform("max")]
    thinned = [_thin(complete[complete["method"] == m]) for m in series["method"].unique()]
    columns = ["method", "algorithm", "round", "x", "mean", "mean_pm", "lowest", "seeds"]
    return pd.concat(thinned)[columns].reset_index(drop=True) if thinned else rows[columns]


def figure(df: pd.DataFrame, x: Axis = "round") -> go.Figure:
    """Mean solid, names at the ends; for few methods also the lowest 5 % dashed, and for fewer a band over seeds."""
    look, fig, ends = looks(df), go.Figure(), []
    shown = list(df.groupby("method", sort=False))[:MOST_LINES]
    for method, own in shown:
        style, at = look[method], own["x"].to_numpy(np.float32)
        color = style.color
        mean, lowest = (100 * own[c].to_numpy(np.float32) for c in ("mean", "lowest"))
        if own["mean_pm"].notna().any() and len(shown) <= MOST_BANDS:
            spread = 100 * own["mean_pm"].fillna(0).to_numpy(np.float32)
            fig.add_scatter(
                x=np.concatenate([at, at[::-1]]), y=np.concatenate([mean + spread, (mean - spread)[::-1]]),
                fill="toself", fillcolor=translucent(color, 0.18), line={"width": 0}, hoverinfo="skip",
            )  # fmt: skip
        hover = [f"{method}, round {r}" for r in own["round"]]
        lines = ((mean, "mean", "solid", 2.2), (lowest, "lowest 5 %", "dash", 1.2))
        for values, what, dash, width in lines if len(shown) <= MOST_DASHED else lines[:1]:
            fig.add_scatter(
                x=at, y=values, mode="lines", name=f"{method} {what}", text=hover,
                line={"color": color, "dash": dash, "width": width},
                hovertemplate=f"%{{text}}<br>{what} %{{y:.2f}} %<extra></extra>",
            )  # fmt: skip
        fig.add_scatter(
            x=at[-1:], y=mean[-1:], mode="markers", hoverinfo="skip", cliponaxis=False,
            marker={"symbol": style.symbol, "size": 9, "color": color},
        )  # fmt: skip
        ends.append(End(str(method), float(at[-1]), float(mean[-1]), color))
    base_layout(fig, height=430)
    low, high = 100 * df["lowest" if len(shown) <= MOST_DASHED else "mean"].min(), 100 * df["mean"].max()
    pad = max(1.0, 0.06 * (high - low))
    label_ends(fig, ends, low - pad, high + pad)
    fig.update_yaxes(title_text="test accuracy, %", range=[low - pad, high + pad])
    fig.update_xaxes(title_text=AXIS_TITLES[x], range=[0, float(df["x"].max()) or 1.0])
    return fig.update_layout(showlegend=False)


def _thin(own: pd.DataFrame) -> pd.DataFrame:
    """At most MOST_POINTS of the rounds, the first and the last among them."""
    if len(own) <= MOST_POINTS:
        return own
    return own.iloc[np.unique(np.linspace(0, len(own) - 1, MOST_POINTS).round().astype(int))]
