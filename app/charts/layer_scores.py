"""Difference of each layer from the shared model, by client: the scores of PLGU, and each client's personal layers.

    xi_il = ||theta_il - w_l|| / dim(w_l)         normalized: the scores of a client sum to 1

A high score marks a layer in which the client differs most. PLGU-LF keeps the D highest layers personal.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import HUES, LIGHT, base_layout
from app.data.thinning import evenly
from app.wording import plural

MAX_NUMBERS, MAX_CLIENTS = 40, 200
OUTLINE = HUES["vermilion"][0]  # visible at both ends of the scale, which is the same in both themes


def data(
    rounds: np.ndarray, scores: np.ndarray, at: int, names: Sequence[str], kept: np.ndarray | None = None
) -> pd.DataFrame:
    """Scores [R, N, L], layers kept [R, N, L] -> [client, layer, name, score, personal, round].

    A client that did not participate in round ``at`` has its latest scores before it, of round ``round``; one that
    never participated has none.
    """
    until = rounds <= at
    rows = []
    for client in range(scores.shape[1]):
        seen = np.flatnonzero(until & np.isfinite(scores[:, client]).all(axis=1))
        if not len(seen):
            continue
        last = seen[-1]
        rows += [
            {
                "client": client,
                "layer": layer,
                "name": names[layer],
                "score": float(score),
                "personal": kept is not None and bool(kept[last, client, layer] > 0),
                "round": int(rounds[last]),
            }
            for layer, score in enumerate(scores[last, client])
        ]
    return pd.DataFrame(rows, columns=["client", "layer", "name", "score", "personal", "round"])


def figure(df: pd.DataFrame) -> go.Figure:
    """A row per client and a column per layer, from the input on; personal layers are outlined and have a diamond."""
    table = df.pivot(index="client", columns="layer", values="score")
    table = table.iloc[evenly(len(table), MAX_CLIENTS)]
    rows = {client: i for i, client in enumerate(table.index)}
    fig = go.Figure()
    fig.add_heatmap(
        z=table.to_numpy(np.float32),
        x=list(table.columns),
        y=list(rows.values()),
        colorscale="Cividis",
        zmin=0,
        zmax=1,
        colorbar={"title": {"text": "score", "side": "top"}, "thickness": 10, "outlinewidth": 0},
        xgap=2,
        ygap=1 if len(table) <= 80 else 0,
        customdata=_hover(df, table),
        texttemplate="%{z:.2f}" if len(table) <= MAX_NUMBERS else None,
        textfont={"size": 11},
        hovertemplate="%{customdata}<extra></extra>",
    )
    kept = df[df["personal"] & df["client"].isin(rows)]
    x, y = kept["layer"].to_numpy(float), kept["client"].map(rows).to_numpy(float)
    outline = {"color": OUTLINE, "width": 2.4}
    fig.add_scatter(**_rectangles(x, y), mode="lines", line=outline, hoverinfo="skip", name="kept")
    fig.add_scatter(
        x=x - 0.42,
        y=y,
        mode="markers",
        hoverinfo="skip",
        name="kept",
        marker={"symbol": "diamond", "size": 9, "color": LIGHT.paper, "line": {"color": LIGHT.ink, "width": 1.5}},
    )
    base_layout(fig, height=int(np.clip(130 + 16 * len(table), 300, 760)))
    layers = df.drop_duplicates("layer")
    fig.update_xaxes(tickvals=layers["layer"], ticktext=layers["name"], showline=False, ticks="", side="top")
    step = -(-len(table) // 30)
    fig.update_yaxes(
        title_text="client",
        autorange="reversed",
        showgrid=False,
        ticks="",
        tickvals=list(rows.values())[::step],
        ticktext=[str(client) for client in rows][::step],
    )
    return fig.update_layout(showlegend=False, margin_t=40)


def finding(df: pd.DataFrame) -> str:
    """``Over 40 clients the mean score is highest in head (0.71); head is personal most often, for 31 of 40.``"""
    means = df.groupby("name", sort=False)["score"].mean()
    clients = df["client"].nunique()
    top = f"Over {plural(clients, 'client')} the mean score is highest in {means.idxmax()} ({means.max():.2f})"
    if not df["personal"].any():
        return f"{top}."
    often = df.groupby("name", sort=False)["personal"].sum()
    return f"{top}; {often.idxmax()} is personal most often, for {int(often.max())} of {clients}."


def _hover(df: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    labeled = df.assign(
        text=[
            f"client {r.client}, {r.name}: score {r.score:.3f}{', personal' * bool(r.personal)} (round {r.round})"
            for r in df.itertuples()
        ]
    )
    return labeled.pivot(index="client", columns="layer", values="text").loc[table.index].to_numpy()


def _rectangles(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Outlines of cells as one broken line."""
    across, down = np.array([-0.49, 0.49, 0.49, -0.49, -0.49, np.nan]), np.array([-0.46, -0.46, 0.46, 0.46, -0.46, 0])
    return {"x": (x[:, None] + across).ravel().astype(np.float32), "y": (y[:, None] + down).ravel().astype(np.float32)}
