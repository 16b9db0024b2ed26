"""The scores of the layers by round, and how often each layer was personal."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.palette import base_layout, cluster_colors, group_dash, theme
from app.wording import percent

MAX_LAYERS = 10


def data(rounds: np.ndarray, scores: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    """Scores [R, N, L] -> [round, layer, name, score]: means over the clients that took part in the round."""
    known = np.isfinite(scores)
    count = known.sum(axis=1)
    mean = np.divide(np.where(known, scores, 0.0).sum(axis=1), count, out=np.full(count.shape, np.nan), where=count > 0)
    num_layers = scores.shape[2]
    return (
        pd.DataFrame(
            {
                "round": np.repeat(rounds, num_layers),
                "layer": np.tile(np.arange(num_layers), len(rounds)),
                "name": np.tile(np.array(names, dtype=object), len(rounds)),
                "score": mean.ravel(),
            }
        )
        .dropna(subset=["score"])
        .reset_index(drop=True)
    )


def how_often(kept: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    """Layers kept [R, N, L], NaN for non-participants -> [layer, name, times, of, share] over rounds and clients."""
    took_part = np.isfinite(kept).all(axis=2)
    times = np.nansum(kept, axis=(0, 1)).astype(int)
    total = int(took_part.sum())
    return pd.DataFrame(
        {
            "layer": np.arange(len(times)),
            "name": list(names),
            "times": times,
            "of": total,
            "share": times / max(total, 1),
        }
    )


def figure(df: pd.DataFrame, at: int) -> go.Figure:
    """A line per layer, named at its end; the layers with the highest last scores."""
    last = df[df["round"] == df["round"].max()].sort_values("score", ascending=False)["layer"].tolist()[:MAX_LAYERS]
    fig, ends = go.Figure(), []
    for layer, hue in zip(sorted(last), cluster_colors(len(last)), strict=True):
        own = df[df["layer"] == layer]
        fig.add_scatter(
            x=own["round"],
            y=own["score"].astype("float32"),
            mode="lines",
            name=own["name"].iloc[0],
            line={"color": hue, "width": 2.2, "dash": group_dash(layer)},
            hovertemplate=f"{own['name'].iloc[0]}, round %{{x}}: %{{y:.3f}}<extra></extra>",
        )
        ends.append(End(own["name"].iloc[0], None, float(own["score"].iloc[-1]), hue))
    fig.add_vline(x=at, line={"color": theme().muted, "width": 1, "dash": "dot"})
    base_layout(fig, height=340)
    label_ends(fig, ends, 0.0, 1.0, lines=16)
    fig.update_xaxes(title_text="round")
    fig.update_yaxes(title_text="mean score over clients", range=[0, 1.02])
    return fig.update_layout(showlegend=False)


def bars(often: pd.DataFrame) -> go.Figure:
    """A bar per layer with its share next to it."""
    fig = go.Figure()
    fig.add_bar(
        y=often["name"],
        x=100 * often["share"],
        orientation="h",
        marker={"color": theme().accent},
        text=[percent(s, 1) for s in often["share"]],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{text} of participations<extra></extra>",
    )
    base_layout(fig, height=int(np.clip(90 + 34 * len(often), 180, 700)))
    fig.update_xaxes(title_text="share of all participations, %", range=[0, 112], tickvals=[0, 25, 50, 75, 100])
    return fig.update_yaxes(autorange="reversed", showgrid=False, ticks="")


def finding(df: pd.DataFrame) -> str:
    """``head has the highest mean score in the last round, 0.81; in round 1 it was 0.62.``"""
    last = df[df["round"] == df["round"].max()].sort_values("score", ascending=False).iloc[0]
    own = df[df["layer"] == last["layer"]]
    first = own.iloc[0]
    return (
        f"{last['name']} has the highest mean score in the last round, {last['score']:.2f}; "
        f"in round {int(first['round'])} it was {first['score']:.2f}."
    )


def often_finding(often: pd.DataFrame) -> str:
    """``head was personal in 87.5 % of 1,200 participations; body.0 never.``"""
    top = often.loc[often["times"].idxmax()]
    never = often.loc[often["times"] == 0, "name"].tolist()
    rest = f"; {', '.join(never)} never" if never else ""
    return f"{top['name']} was personal in {percent(top['share'], 1)} of {top['of']:,} participations{rest}."
