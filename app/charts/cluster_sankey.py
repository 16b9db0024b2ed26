"""Cluster changes over a few rounds: the width of a band is its number of clients."""

from itertools import pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.cluster_raster import letter
from app.charts.plot.annotations import annotate
from app.charts.plot.palette import base_layout, cluster_colors, theme, translucent
from app.data.thinning import evenly
from app.wording import names, plural

MAX_STOPS = 6


def stops(rounds: np.ndarray, chosen: int) -> list[int]:
    """A few of ``rounds``, evenly spread, including the first, the last and the one nearest to ``chosen``."""
    places = {*evenly(len(rounds), MAX_STOPS - 1), int(np.abs(rounds - chosen).argmin())}
    return [int(rounds[i]) for i in sorted(places)]


def data(cells: pd.DataFrame, rounds: list[int]) -> pd.DataFrame:
    """Cells of the raster -> [round, next_round, before, after, clients]: a row per band between neighboring stops."""
    grid = cells.pivot(index="client", columns="round", values="cluster")
    rows = []
    for now, then in pairwise(rounds):
        pairs = pd.DataFrame({"before": grid[now], "after": grid[then]}).value_counts().sort_index()
        rows += [
            {"round": now, "next_round": then, "before": letter(j), "after": letter(k), "clients": int(count)}
            for (j, k), count in pairs.items()
        ]
    return pd.DataFrame(rows, columns=["round", "next_round", "before", "after", "clients"])


def figure(df: pd.DataFrame, chosen: int) -> go.Figure:
    """A column per stop, its clusters from A downwards; ``chosen`` is the round that the page shows."""
    shade = theme()
    rounds = sorted({*df["round"], *df["next_round"]})
    letters = sorted({*df["before"], *df["after"]}, key=lambda name: (name[1:], name))
    color = dict(zip(letters, cluster_colors(len(letters)), strict=True))
    nodes = _nodes(df, rounds, letters)
    index = {key: i for i, key in enumerate(nodes)}
    total = df.loc[df["round"] == rounds[0], "clients"].sum()
    fig = go.Figure(
        go.Sankey(
            arrangement="fixed",
            node={
                "label": [f"{name} · {size}" for (_, name), (size, _) in nodes.items()],
                "x": [_inside(rounds.index(at) / max(len(rounds) - 1, 1)) for at, _ in nodes],
                "y": [_inside(middle / total) for _, middle in nodes.values()],
                "color": [color[name] for _, name in nodes],
                "pad": 8,
                "thickness": 14,
                "line": {"width": 0},
                "customdata": [f"round {at}" for at, _ in nodes],
                "hovertemplate": "%{customdata}: %{label} clients<extra></extra>",
            },
            link={
                "source": [index[row.round, row.before] for row in df.itertuples()],
                "target": [index[row.next_round, row.after] for row in df.itertuples()],
                "value": df["clients"],
                "color": [translucent(color[b], 0.35) for b in df["before"]],
                "hovertemplate": "%{value:.0f} from %{source.label} to %{target.label}<extra></extra>",
            },
        )
    )
    base_layout(fig, height=360)
    annotate(
        fig,
        (
            {
                "x": i / max(len(rounds) - 1, 1),
                "y": 1.0,
                "yshift": 14,
                "showarrow": False,
                "text": f"<b>round {at}</b>" if at == chosen else f"round {at}" if i == 0 else str(at),
                "font": {"color": shade.ink if at == chosen else shade.muted, "size": 12},
            }
            for i, at in enumerate(rounds)
        ),
    )
    fig.update_traces(textfont={"color": shade.ink, "size": 12})
    return fig.update_layout(margin={"t": 34, "b": 12, "r": 12, "l": 12})


def finding(df: pd.DataFrame) -> str:
    """``40 clients, compared in rounds 1, 21 and 40: 12 moves between clusters.`` Other rounds are not counted."""
    rounds = sorted({*df["round"], *df["next_round"]})
    moves = int(df.loc[df["before"] != df["after"], "clients"].sum())
    clients = int(df.loc[df["round"] == rounds[0], "clients"].sum())
    compared = names(map(str, rounds), limit=MAX_STOPS)
    what = f"{plural(moves, 'move')} between clusters" if moves else "all are in the same clusters"
    return f"{plural(clients, 'client')}, compared in rounds {compared}: {what}."


def _nodes(df: pd.DataFrame, rounds: list[int], letters: list[str]) -> dict[tuple[int, str], tuple[int, float]]:
    """(round, letter) -> (size, middle of its part of the column, counted in clients from the top)."""
    nodes: dict[tuple[int, str], tuple[int, float]] = {}
    for at in rounds:
        side, name = (("round", "before"), ("next_round", "after"))[at == rounds[-1]]
        sizes = df[df[side] == at].groupby(name)["clients"].sum()
        above = 0
        for letter_ in (known for known in letters if known in sizes.index):
            nodes[at, letter_] = (int(sizes[letter_]), above + sizes[letter_] / 2)
            above += int(sizes[letter_])
    return nodes


def _inside(share: float) -> float:
    """Plotly ignores positions at the very edge."""
    return float(np.clip(share, 0.001, 0.999))
