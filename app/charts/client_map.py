"""Clients' models in one plane, animated over the rounds.

The plane is that of the last round's first two principal components (``engine/analyses/client_map.py``). Both axes have
the same scale, so nearby models are similar. The animation runs in the browser.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import SANS, base_layout, cluster_colors, group_symbol, is_presenting, theme
from app.wording import number, percent, plural

FRAME_MS = 250
TRAIL = 12  # rounds that a trail goes back
GROUPS = {"cluster": "cluster", "context": "true context"}


def data(
    arrays: Mapping[str, np.ndarray],
    cells: pd.DataFrame | None = None,
    contexts: Sequence[int] | None = None,
    malicious: Sequence[int] = (),
) -> pd.DataFrame:
    """Arrays of the analysis, cells of the raster, contexts -> [round, client, x, y, cluster, context, is_malicious].

    ``cluster`` is the letter in the raster, ``""`` before there are clusters; ``context`` is ``""`` if unknown.
    """
    rounds, places = arrays["rounds"], arrays["clients"]
    num_clients = places.shape[1]
    table = pd.DataFrame(
        {
            "round": np.repeat(rounds, num_clients),
            "client": np.tile(np.arange(num_clients), len(rounds)),
            "x": places[:, :, 0].ravel(),
            "y": places[:, :, 1].ravel(),
            "context": np.tile([str(g) for g in contexts] if contexts is not None else [""] * num_clients, len(rounds)),
            "is_malicious": np.tile(np.isin(np.arange(num_clients), malicious), len(rounds)),
        }
    )
    if cells is None or cells.empty:
        return table.assign(cluster="")
    letters = cells[["round", "client", "letter"]].rename(columns={"letter": "cluster"})
    return table.merge(letters, on=["round", "client"], how="left").fillna({"cluster": ""})


def shared(arrays: Mapping[str, np.ndarray], df: pd.DataFrame) -> pd.DataFrame:
    """Positions of shared models -> [round, cluster, x, y, clients]: one per cluster, or one for all (``""``)."""
    places = arrays.get("shared")
    if places is None:
        return pd.DataFrame(columns=["round", "cluster", "x", "y", "clients"])
    if places.shape[1] == 1:
        table = pd.DataFrame({"round": arrays["rounds"], "cluster": "", "x": places[:, 0, 0], "y": places[:, 0, 1]})
        return table.assign(clients=df["client"].nunique())
    of_clients = df[["round", "cluster"]].assign(x=places[:, :, 0].ravel(), y=places[:, :, 1].ravel())
    of_clients["clients"] = of_clients.groupby(["round", "cluster"])["x"].transform("size")
    return of_clients.drop_duplicates(["round", "cluster"]).reset_index(drop=True)


def figure(
    df: pd.DataFrame, centers: pd.DataFrame, arrays: Mapping[str, np.ndarray], *, by: str, at: int, trails: bool
) -> go.Figure:
    """One frame per round, with Play and Pause; opens at the round nearest to ``at``. Groups also differ in symbol."""
    rounds = [int(r) for r in arrays["rounds"]]
    active = int(np.abs(np.array(rounds) - at).argmin())
    frames = [go.Frame(name=str(r), data=_traces(df, centers, arrays, by, r, trails)) for r in rounds]
    fig = go.Figure(data=frames[active].data, frames=frames)
    base_layout(fig, height=640)
    for axis, column, share in zip(("xaxis", "yaxis"), ("x", "y"), arrays["explained"], strict=True):
        name = f"principal component {1 + (column == 'y')}, {percent(float(share), 0)} of the variance"
        fig.update_layout({axis: {"title_text": name, "range": _reach(df, centers, column), "showgrid": True}})
    fig.update_yaxes(scaleanchor="x", scaleratio=1)
    fig.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}, **_player(rounds, active))
    return fig.update_layout(margin={"t": 40, "b": 8})


def finding(df: pd.DataFrame, arrays: Mapping[str, np.ndarray], *, by: str, at: int) -> str:
    """``In round 40 clients are 0.21 from the mean of their cluster on average, and these means 4.61 from ...``"""
    rounds = arrays["rounds"]
    index = int(np.abs(rounds - at).argmin())
    now = df[(df["round"] == rounds[index]) & ~df["is_malicious"]]
    shown = f"the plane shows {percent(float(arrays['shown'][index]), 0)} of the differences between clients"
    middles = now.groupby(by)[["x", "y"]].mean()
    head = f"In round {rounds[index]} {'benign clients' if df['is_malicious'].any() else 'clients'} are"
    if len(middles) < 2:
        around = np.hypot(*(now[["x", "y"]] - now[["x", "y"]].mean()).to_numpy().T).mean()
        return f"{head} {number(float(around))} from their mean on average; {shown}."
    inside = np.hypot(*(now[["x", "y"]].to_numpy() - middles.loc[now[by]].to_numpy()).T).mean()
    gaps = np.hypot(*(middles.to_numpy()[:, None] - middles.to_numpy()[None]).transpose(2, 0, 1))
    apart = gaps[np.triu_indices(len(gaps), 1)].mean()
    return (
        f"{head} {number(float(inside))} from the mean of their {GROUPS[by]} on average, and these means "
        f"{number(float(apart))} from one another; {shown}."
    )


def _traces(
    df: pd.DataFrame, centers: pd.DataFrame, arrays: Mapping[str, np.ndarray], by: str, at: int, trails: bool
) -> list[go.Scatter]:
    """The same traces in every round, some of them empty."""
    shade, groups = theme(), _groups(df, by)
    traces = [_trail(df, at) if trails else go.Scatter(x=[], y=[], showlegend=False)]
    now = df[df["round"] == at]
    for i, (group, color) in enumerate(zip(groups, cluster_colors(len(groups)), strict=True)):
        own = now[now[by] == group]
        other = own["context"] if by == "cluster" else own["cluster"]
        traces.append(
            go.Scatter(
                x=own["x"].astype("float32"),
                y=own["y"].astype("float32"),
                mode="markers",
                name=f"{GROUPS[by]} {group}" if group else "no cluster yet" if i else "clients",
                showlegend=True,
                customdata=np.stack([own["client"].astype(str), [_also(by, o) for o in other]], axis=1),
                marker={
                    "color": color if group or not i else shade.muted,
                    "symbol": _hollow_or_filled(group_symbol(i), own["is_malicious"]),
                    "size": 11,
                    "opacity": 0.85,
                    "line": {"width": 1, "color": shade.paper},
                },
                hovertemplate="client %{customdata[0]}%{customdata[1]}<extra>%{fullData.name}</extra>",
            )
        )
    here = centers[centers["round"] == at]
    traces.append(
        go.Scatter(
            x=here["x"].astype("float32"),
            y=here["y"].astype("float32"),
            mode="markers+text",
            text=[f"{row.cluster} · {row.clients}" if row.cluster else "" for row in here.itertuples()],
            customdata=[plural(int(row.clients), "client") for row in here.itertuples()],
            name="shared model",
            showlegend=not centers.empty,
            textposition="top right",
            textfont={"size": 19 if is_presenting() else 15, "color": shade.ink, "family": SANS},
            marker={"symbol": "circle-open", "size": 22, "color": shade.ink, "line": {"width": 2}},
            hovertemplate="shared model of %{customdata}<extra></extra>",
        )
    )
    start = arrays.get("start")
    traces.append(
        go.Scatter(
            x=[] if start is None else [start[0]],
            y=[] if start is None else [start[1]],
            mode="markers",
            name="start",
            showlegend=start is not None,
            hovertemplate="initial model<extra></extra>",
            marker={
                "symbol": "cross-thin",
                "size": 13,
                "color": shade.muted,
                "line": {"width": 2, "color": shade.muted},
            },
        )
    )
    return traces


def _hollow_or_filled(symbol: str, is_malicious: pd.Series) -> str | list[str]:
    """The symbol of each client: hollow for malicious ones."""
    return [f"{symbol}-open" if m else symbol for m in is_malicious] if is_malicious.any() else symbol


def _trail(df: pd.DataFrame, at: int) -> go.Scatter:
    """The path of each client over the last rounds, as one broken line."""
    past = np.sort(df.loc[df["round"] <= at, "round"].unique())[-TRAIL:]
    own = df[df["round"].isin(past)]
    x, y = (own.pivot(index="client", columns="round", values=v).to_numpy(np.float32) for v in ("x", "y"))
    broken = [np.column_stack([v, np.full(len(v), np.nan, np.float32)]).ravel() for v in (x, y)]
    return go.Scatter(
        x=broken[0],
        y=broken[1],
        mode="lines",
        line={"color": theme().muted, "width": 0.8},
        opacity=0.6,
        hoverinfo="skip",
        showlegend=False,
    )


def _groups(df: pd.DataFrame, by: str) -> list[str]:
    """Clusters or contexts in order; ``""`` comes last, for the rounds before there are any."""
    return sorted({*df[by]}, key=lambda name: (not name, len(name), name))


def _also(by: str, other: str) -> str:
    if not other:
        return ""
    return f", true context {other}" if by == "cluster" else f", cluster {other}"


def _reach(df: pd.DataFrame, centers: pd.DataFrame, axis: str) -> list[float]:
    values = pd.concat([df[axis], centers[axis]]).astype(float)
    pad = 0.12 * (values.max() - values.min()) or 1.0
    return [values.min() - pad, values.max() + pad]


def _player(rounds: list[int], active: int) -> dict[str, Any]:
    """Play, Pause and a slider. Points jump from round to round without transitions."""
    shade, size = theme(), 17 if is_presenting() else 13
    still = {"frame": {"duration": 0, "redraw": False}, "mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": FRAME_MS, "redraw": False}, "fromcurrent": True, "transition": {"duration": 0}}
    buttons = [
        {"label": "Play", "method": "animate", "args": [None, play]},
        {"label": "Pause", "method": "animate", "args": [[None], still]},
    ]
    look = {"bgcolor": shade.second, "bordercolor": shade.line, "font": {"color": shade.ink, "size": size}}
    steps = [{"label": str(r), "method": "animate", "args": [[str(r)], still]} for r in rounds]
    return {
        "updatemenus": [
            {
                "type": "buttons",
                "direction": "left",
                "buttons": buttons,
                "showactive": False,
                "x": 0,
                "xanchor": "left",
                "y": -0.13,
                "yanchor": "top",
                "pad": {"t": 8},
                **look,
            }
        ],
        "sliders": [
            {
                "active": active,
                "steps": steps,
                "x": 0,
                "len": 1,
                "y": -0.13,
                "yanchor": "top",
                "pad": {"t": 22},
                "currentvalue": {
                    "prefix": "round ",
                    "xanchor": "right",
                    "offset": 12,
                    "font": {"size": size + 3, "color": shade.ink},
                },
                "bgcolor": shade.accent,
                "activebgcolor": shade.ink,
                "bordercolor": shade.line,
                "tickcolor": shade.line,
                "font": {"color": shade.muted, "size": size - 2},
            }
        ],
    }
