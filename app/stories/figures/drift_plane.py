"""Models of two numbers in the plane: lines of equal loss, local paths of the last round, and the server's path."""

import numpy as np
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.components.moving_figure import RESULT, Moves
from app.stories.drift_run import CLIENTS, START
from app.stories.figures.square_plane import square_plane

HEIGHT = 350
EXTENT = 2.5
BEYOND = 4 * EXTENT  # where a wide figure may end
STEPS = 81  # of the plane, each way
APART = 0.42  # two lines of equal loss, in the root of the loss
LETTERS = "AB"


def figure(end: np.ndarray) -> go.Figure:
    """The losses, their minimum, and where the method ends; ``moving`` adds the paths."""
    fig, shade = go.Figure(), palette.theme()
    _add_losses(fig)
    for client, (letter, color) in enumerate(zip(LETTERS, colors(), strict=True)):
        fig.add_scatter(
            x=[],
            y=[],
            mode="lines+markers",
            name=f"path {letter}",
            line={"color": color, "width": 2, "dash": palette.group_dash(client)},
            marker={"size": 5, "color": color},
            hovertemplate=f"client {letter}, local step<extra></extra>",
        )
        x, y = CLIENTS.optima[client]
        fig.add_scatter(
            x=[x],
            y=[y],
            mode="markers+text",
            text=[letter],
            textfont={"color": shade.paper, "family": palette.MONO},
            marker={"size": 22, "symbol": palette.group_symbol(client), "color": color},
            hovertemplate=f"optimum of client {letter}<extra></extra>",
        )
    _add_ends(fig, end)
    fig.add_scatter(
        x=[],
        y=[],
        mode="lines+markers",
        name="server",
        line={"color": live_traces.color(), "width": 2.5},
        marker={"size": 7, "color": live_traces.color(), "line": {"width": 1, "color": shade.paper}},
        hovertemplate="shared model<extra></extra>",
    )
    fig.add_trace(live_traces.dots("shared model now"))
    palette.base_layout(fig, height=HEIGHT)
    return square_plane(fig, EXTENT)


def moving(server: np.ndarray, paths: np.ndarray | None) -> Moves:
    """The server's models [rounds + 1, 2] so far, and the clients' local steps [E + 1, N, 2] of the last round."""
    moves = {
        "server": {"x": server[:, 0].tolist(), "y": server[:, 1].tolist()},
        "your run": {"x": [float(server[-1, 0])], "y": [float(server[-1, 1])]},
    }
    if paths is not None:
        for client, letter in enumerate(LETTERS):
            moves[f"path {letter}"] = {"x": paths[:, client, 0].tolist(), "y": paths[:, client, 1].tolist()}
    return moves


def colors() -> list[str]:
    """The colors of the clients."""
    return [palette.HUES[hue][palette.is_dark()] for hue in ("blue", "amber")]


def _add_losses(fig: go.Figure) -> None:
    """Lines of equal mean loss."""
    x, y = np.linspace(-BEYOND, BEYOND, 4 * STEPS - 3), np.linspace(-EXTENT, EXTENT, STEPS)
    loss = CLIENTS.loss(np.stack(np.meshgrid(x, y), -1))
    root = np.sqrt(loss - CLIENTS.loss(CLIENTS.minimum))  # which makes the lines of a quadratic evenly spaced
    fig.add_contour(
        x=x,
        y=y,
        z=root,
        contours={"coloring": "lines", "start": 0.15, "end": 30 * APART, "size": APART},
        colorscale=[[0, palette.theme().muted], [1, palette.theme().line]],
        line={"width": 1},
        showscale=False,
        hoverinfo="skip",
    )


def _add_ends(fig: go.Figure, end: np.ndarray) -> None:
    """The start, the minimum as a star, and the method's last model as a ring."""
    shade = palette.theme()
    x, y = START
    fig.add_scatter(
        x=[x],
        y=[y],
        mode="markers+text",
        text=["start "],
        textposition="middle left",
        textfont_color=shade.muted,
        marker={"size": 7, "color": shade.muted},
        hoverinfo="skip",
    )
    x, y = CLIENTS.minimum
    fig.add_scatter(
        x=[x],
        y=[y],
        mode="markers",
        marker={"symbol": "star", "size": 20, "color": shade.ink},
        hovertemplate="minimum of the mean loss<extra></extra>",
    )
    fig.add_scatter(
        x=[end[0]],
        y=[end[1]],
        mode="markers",
        marker={"symbol": "circle-open", "size": 20, "color": live_traces.color(), "line": {"width": 2}},
        hovertemplate="where the method ends<extra></extra>",
        meta=RESULT,
    )
