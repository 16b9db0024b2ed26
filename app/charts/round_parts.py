"""The time of a round by part, in seconds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import HUES, base_layout, is_dark, theme
from app.wording import percent, seconds

LOOKS = (("blue", ""), ("amber", "/"), ("green", "x"), ("purple", "."), ("vermilion", "\\"), ("olive", "+"))


def data(rounds: Sequence[int], parts: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Seconds [R] of each named part -> [round, part, seconds], in their order; without parts that took no time."""
    parts = {name: values for name, values in parts.items() if np.any(values)}
    return pd.DataFrame(
        {
            "round": np.tile(rounds, len(parts)),
            "part": np.repeat(list(parts), len(rounds)),
            "seconds": np.concatenate([np.asarray(values, dtype=float) for values in parts.values()]),
        }
    )


def finding(df: pd.DataFrame) -> str:
    """``Local training takes 81 % of a round of 1.2 s, evaluation 12 %.``"""
    total = df.groupby("part", sort=False)["seconds"].sum().sort_values(ascending=False, kind="stable")
    shares = [percent(value / total.sum(), 0) for value in total]
    each = seconds(total.sum() / df["round"].nunique())
    first = f"{str(total.index[0]).capitalize()} takes {shares[0]} of a round of {each}"
    return f"{first}, {total.index[1]} {shares[1]}." if len(total) > 1 else f"{first}."


def figure(df: pd.DataFrame) -> go.Figure:
    """A stacked bar per round; each part has a pattern as well as a color."""
    fig, side = go.Figure(), 1 if is_dark() else 0
    for (part, own), (hue, pattern) in zip(df.groupby("part", sort=False), LOOKS, strict=False):
        fig.add_bar(
            x=own["round"].astype(str),
            y=own["seconds"].to_numpy(np.float32),
            name=part,
            marker={
                "color": HUES[hue][side],
                "line_width": 0,
                "pattern_shape": pattern,
                "pattern_fillmode": "overlay",
                "pattern_fgcolor": theme().paper,
            },
            hovertemplate=f"{part}, round %{{x}}: %{{y:.3g}} s<extra></extra>",
        )
    base_layout(fig, height=360)
    fig.update_xaxes(title_text="round", type="category")
    fig.update_yaxes(title_text="seconds", rangemode="tozero")
    legend = {"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top"}
    return fig.update_layout(barmode="stack", bargap=0.35, showlegend=True, legend=legend)
