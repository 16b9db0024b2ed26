"""The cluster of each client, round by round, and how many clients moved.

Clusters are a partition of the clients; their numbers are arbitrary. So each round's numbers are matched to those of
the previous round, by shared clients: a letter and its color stay with the group, and renumbering is not a move.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from app.charts.plot.annotations import annotate
from app.charts.plot.palette import base_layout, cluster_colors, theme, translucent
from app.data.thinning import evenly
from app.data.true_contexts import are_groups
from app.wording import plural

MAX_ROUNDS, MAX_CLIENTS, MAX_LETTERS = 300, 200, 60
RASTER = 0.7  # of the height of the figure
LABEL_PX = 15  # from one number of a context to the next
VEIL = 0.75  # over clients that are not chosen
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def data(rounds: np.ndarray, labels: np.ndarray, contexts: np.ndarray | None = None) -> pd.DataFrame:
    """Rounds [R], labels [R, N], true contexts [N] -> [round, client, row, cluster, letter, moved, context, ari].

    ``row`` orders clients by final cluster, then by true context; ``moved`` compares with the previous stored round;
    ``ari`` is the adjusted Rand index of the round's clusters against the contexts, NaN where those are no groups.
    """
    stable = match_rounds(labels)
    num_clients = labels.shape[1]
    truth = np.full(num_clients, -1) if contexts is None else np.asarray(contexts)
    row = np.empty(num_clients, int)
    row[np.lexsort((np.arange(num_clients), truth, stable[-1]))] = np.arange(num_clients)
    moved = np.vstack([np.zeros((1, num_clients), bool), stable[1:] != stable[:-1]])
    ari = _agreement(truth, stable) if are_groups(contexts) else np.full(len(rounds), np.nan)
    return pd.DataFrame(
        {
            "round": np.repeat(rounds, num_clients),
            "client": np.tile(np.arange(num_clients), len(rounds)),
            "row": np.tile(row, len(rounds)),
            "cluster": stable.ravel(),
            "letter": _letters(stable.ravel()),
            "moved": moved.ravel(),
            "context": np.tile(truth, len(rounds)),
            "ari": np.repeat(ari, num_clients),
        }
    )


def match_rounds(labels: np.ndarray) -> np.ndarray:
    """[R, N] -> the same partitions, numbered 0, 1, ... so that as few clients as possible change their number."""
    numbers = np.unique(labels)
    labels = np.searchsorted(numbers, labels)
    matched = [labels[0]]
    for before, now in pairwise(labels):
        if (now == before).all():
            matched.append(matched[-1])
            continue
        shared = np.zeros((len(numbers), len(numbers)))
        np.add.at(shared, (now, matched[-1]), 1)
        _, new = linear_sum_assignment(-shared - 1e-3 * np.eye(len(numbers)))  # ties keep the number
        matched.append(new[now])
    return _by_size(np.stack(matched))


def letter(cluster: int) -> str:
    """A, B, ... Z, A1, B1, ..."""
    return LETTERS[cluster % 26] + (str(cluster // 26) if cluster >= 26 else "")


def memberships(df: pd.DataFrame) -> pd.DataFrame:
    """One row each time a client enters a cluster; ``round`` is its first round there."""
    first = df["round"] == df["round"].min()
    entered = df[first | df["moved"]].sort_values(["client", "round"], kind="stable")
    return entered[["client", "round", "letter", "context"]].reset_index(drop=True)


def finding(df: pd.DataFrame) -> str:
    """``4 clusters of 12, 10, 9 and 9 clients; no client has moved since round 14; adjusted Rand index 0.83.``"""
    last = df[df["round"] == df["round"].max()]
    sizes = sorted(last.groupby("letter").size(), reverse=True)
    moves = df.groupby("round")["moved"].sum()
    moving = moves[moves > 0].index
    if not len(moving):
        settled = "no client ever moved"
    elif moving[-1] == moves.index[-1]:
        settled = f"{plural(int(moves.iloc[-1]), 'client')} moved in the last round"
    else:
        settled = f"no client has moved since round {moving[-1]}"
    ari = last["ari"].iloc[0]
    truth = f"; adjusted Rand index with the true contexts {ari:.2f}" if pd.notna(ari) else ""
    members = f"{_listed(sizes)} clients" if len(set(sizes)) > 1 else plural(sizes[0], "client")
    return f"{plural(len(sizes), 'cluster')} of {members}; {settled}{truth}."


def figure(df: pd.DataFrame, at: int | None = None, chosen: Sequence[int] = ()) -> go.Figure:
    """The raster: a letter where clients join a cluster, the final clusters named on the right, moves below.

    If the true contexts are groups, their numbers are on the left. Round ``at`` is marked. If clients are ``chosen``,
    the others fade.
    """
    num_clusters, num_clients = int(df["cluster"].max()) + 1, df["client"].nunique()
    grid = df.pivot(index="row", columns="round", values="cluster")
    client_of = df.drop_duplicates("row").set_index("row")["client"]
    grid = grid.iloc[evenly(len(grid), MAX_CLIENTS), evenly(grid.shape[1], MAX_ROUNDS)]
    client_of = client_of.loc[grid.index].reset_index(drop=True)
    grid = grid.reset_index(drop=True)
    letters = _letters(grid.to_numpy())
    fig = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.82, 0.18], vertical_spacing=0.04)
    fig.add_heatmap(
        z=grid.to_numpy(np.float32),
        x=grid.columns,
        y=grid.index,
        colorscale=_scale(num_clusters),
        showscale=False,
        zmin=-0.5,
        zmax=num_clusters - 0.5,
        xgap=int(grid.shape[1] <= 80),
        ygap=int(len(grid) <= 60),
        text=_starts(grid.to_numpy(), letters),
        texttemplate="%{text}" if len(grid) <= MAX_LETTERS else None,
        textfont={"size": 9, "color": theme().paper},
        customdata=_joined(client_of.to_numpy(), letters),
        row=1,
        col=1,
        hovertemplate="round %{x}, client %{customdata}<extra></extra>",
    )
    moves = _moves(df, grid.columns)
    fig.add_bar(
        x=moves.index,
        y=moves["moved"],
        marker={"color": theme().accent},
        customdata=moves["rounds"],
        row=2,
        col=1,
        hovertemplate="%{customdata}: %{y} moved<extra></extra>",
    )
    base_layout(fig, height=int(np.clip(170 + 9 * min(num_clients, MAX_CLIENTS), 360, 760)))
    _name_groups(fig, grid, df.loc[df["round"] == grid.columns[-1], "cluster"].value_counts(), num_clusters)
    fig.update_yaxes(
        title_text="clients, by final cluster",
        showticklabels=False,
        ticks="",
        autorange="reversed",
        showgrid=False,
        row=1,
        col=1,
    )
    _name_contexts(fig, df, client_of)
    if at is not None:
        fig.add_vline(x=at, line={"color": theme().ink, "width": 1.4, "dash": "dot"}, row="all", col=1)
    if chosen:
        _fade(fig, ~client_of.isin(chosen).to_numpy())
    top = max(1, int(moves["moved"].max()))
    fig.update_yaxes(title_text="moved", tickvals=[0, top], range=[0, 1.15 * top], row=2, col=1)
    fig.update_xaxes(title_text="round", row=2, col=1)
    return fig.update_layout(showlegend=False, bargap=0.1, margin_r=72)


def _listed(sizes: list[int]) -> str:
    *some, last = map(str, sizes)
    return f"{', '.join(some)} and {last}" if some else last


def _moves(df: pd.DataFrame, drawn: pd.Index) -> pd.DataFrame:
    """A row per drawn round: how many clients moved since the drawn round before, and these rounds in words."""
    moved = df.groupby("round")["moved"].sum()
    group = drawn[np.searchsorted(drawn, moved.index)]
    spans = pd.Series(moved.index, group).groupby(level=0).agg(["first", "last"])
    words = [f"round {b}" if a == b else f"rounds {a} to {b}" for a, b in spans.itertuples(index=False)]
    return pd.DataFrame({"moved": moved.groupby(group).sum(), "rounds": words})


def _name_groups(fig: go.Figure, grid: pd.DataFrame, sizes: pd.Series, num_clusters: int) -> None:
    """``A · 12`` next to the rows whose final cluster is A; ``sizes`` also counts clients that are not drawn."""
    final, colors = grid.iloc[:, -1], cluster_colors(num_clusters)
    annotate(
        fig,
        (
            {
                "xref": "paper",
                "x": 1,
                "yref": "y",
                "y": float(np.mean(rows.index)),
                "xanchor": "left",
                "xshift": 6,
                "text": f"<b>{letter(int(cluster))}</b> · {sizes[cluster]}",
                "showarrow": False,
                "font": {"color": colors[int(cluster)], "size": 13},
            }
            for cluster, rows in final.groupby(final)
        ),
    )


def _name_contexts(fig: go.Figure, df: pd.DataFrame, client_of: pd.Series) -> None:
    """``2`` next to the rows of neighboring clients of true context 2, for as many groups as fit, the largest first."""
    if df["ari"].isna().all():
        return
    truth = df.drop_duplicates("client").set_index("client")["context"].loc[client_of].to_numpy()
    begins = np.flatnonzero(np.diff(truth, prepend=truth[0] - 1))
    groups = sorted(zip(begins, [*begins[1:], len(truth)], strict=True), key=lambda group: group[0] - group[1])
    room = LABEL_PX * len(truth) / (RASTER * (fig.layout.height - fig.layout.margin.t - fig.layout.margin.b))
    fits: list[tuple[int, int]] = []
    for begin, end in groups:
        if all(abs(begin + end - b - e) / 2 >= room for b, e in fits):
            fits.append((int(begin), int(end)))
    fits.sort()
    fig.update_yaxes(
        title_text="clients, by final cluster<br>numbers: true contexts",
        showticklabels=True,
        tickvals=[(b + e - 1) / 2 for b, e in fits],
        ticktext=[str(truth[b]) for b, _ in fits],
        row=1,
        col=1,
    )


def _fade(fig: go.Figure, is_faded: np.ndarray) -> None:
    """Translucent overlays on the faded rows."""
    edges = np.flatnonzero(np.diff(is_faded.astype(int), prepend=0, append=0))
    veils = [
        {
            "type": "rect",
            "xref": "x domain",
            "x0": 0,
            "x1": 1,
            "y0": begin - 0.5,
            "y1": end - 0.5,
            "line": {"width": 0},
            "fillcolor": translucent(theme().paper, VEIL),
        }
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]
    fig.layout.shapes = [*fig.layout.shapes, *veils]


def _scale(num_clusters: int) -> list[tuple[float, str]]:
    """One step per cluster."""
    colors = cluster_colors(num_clusters)
    return [((i + side) / num_clusters, color) for i, color in enumerate(colors) for side in (0, 1)]


def _agreement(truth: np.ndarray, stable: np.ndarray) -> np.ndarray:
    """[R] the adjusted Rand index, computed where a round differs from the one before."""
    found = [adjusted_rand_score(truth, stable[0])]
    for before, now in pairwise(stable):
        found.append(found[-1] if (now == before).all() else adjusted_rand_score(truth, now))
    return np.array(found)


def _letters(clusters: np.ndarray) -> np.ndarray:
    return np.array([letter(k) for k in range(int(clusters.max()) + 1)], dtype=object)[clusters]


def _joined(clients: np.ndarray, letters: np.ndarray) -> np.ndarray:
    """``3: A`` for each cell; short, because there may be many."""
    names = np.array([f"{client}: " for client in clients], dtype=object)
    return names[:, None] + letters


def _starts(clusters: np.ndarray, letters: np.ndarray) -> np.ndarray:
    """Letters where a row begins or changes, else empty; one for neighboring rows that change alike."""
    begins = np.ones(clusters.shape, bool)
    begins[:, 1:] = clusters[:, 1:] != clusters[:, :-1]
    is_repeated = np.zeros(clusters.shape, bool)
    is_repeated[1:] = begins[:-1] & (clusters[1:] == clusters[:-1])
    return np.where(begins & ~is_repeated, letters, "")


def _by_size(labels: np.ndarray) -> np.ndarray:
    """Renumbered: the group that ends largest is 0."""
    final = np.bincount(labels[-1], minlength=labels.max() + 1)
    ever = np.bincount(labels.ravel(), minlength=len(final))
    rank = np.empty(len(final), int)
    rank[np.lexsort((-ever, -final))] = np.arange(len(final))
    return rank[labels]
