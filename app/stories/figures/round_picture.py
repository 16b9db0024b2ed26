"""A round of federated learning: a server above, clients below, and models that travel between them.

Each client's column shows its copy of the model and some of its images. What is animated: the models on their way,
the weights of the shared model and those of the copies.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.mosaic import GAP, PIXELS, canvas, cells, for_and_against, heat_map
from app.stories.round_phases import AVERAGE, SEND, TRAIN

HEIGHT = 410
WIDTH = 100.0  # of the plane
SERVER = 15.0  # width of the server's picture
MAX_WIDTH = 13.0  # width of a client's picture, unless there are many
WIRES = 13.0  # from the server's picture down to the clients'
WORDS = 4.0  # room for a line of text
MAX_WEIGHT = 0.5  # colors are full from here on


def figure(images: np.ndarray, ended: str) -> go.Figure:
    """``images`` [N, 4, 8, 8] of the clients, ``ended``: the shipped result; ``moving`` puts the models in place."""
    fig, shade, N = go.Figure(), palette.theme(), len(images)
    wires = _wires(N)
    fig.add_scatter(**wires, mode="lines", line={"color": shade.line, "width": 2}, hoverinfo="skip")
    fig.add_trace(_weights("shared model", _left(WIDTH / 2, SERVER), _tall(N), SERVER))
    _add_words(fig, "server: shared model", WIDTH / 2 + SERVER / 2 + 2, _tall(N) - SERVER / 2, "middle right")
    _add_words(fig, ended, WIDTH / 2 - SERVER / 2 - 2, _tall(N) - SERVER / 2, "middle left", meta=RESULT)
    side, copies_top = _side(N), _copies_top(N)
    images_top = copies_top - side - WORDS
    for client, center in enumerate(_centers(N)):
        left = _left(center, side)
        fig.add_trace(_weights(f"copy {client}", left, copies_top, side))
        pair = cells([list(images[client, :2]), list(images[client, 2:])], 2)
        fig.add_trace(heat_map(pair, left=left, top=images_top, pixel=side / (2 * (PIXELS + GAP))))
    _add_words(
        fig,
        "copy of the model" if N == 1 else "copies of the model",
        WIDTH / 2,
        copies_top - side - WORDS / 2,
        "middle center",
    )
    _add_words(fig, "images: they stay", WIDTH / 2, images_top - side - WORDS / 2, "middle center")
    fig.add_scatter(
        x=[],
        y=[],
        mode="markers",
        name="on the way",
        marker={
            "symbol": "square",
            "size": 15,
            "color": live_traces.color(),
            "line": {"color": shade.paper, "width": 2},
        },
        hoverinfo="skip",
    )
    palette.base_layout(fig, height=HEIGHT)
    return canvas(fig, WIDTH, _tall(N))


def moving(phase: int, shared: np.ndarray, copies: np.ndarray | None, num_clients: int) -> Moves:
    """After a phase: where the models are, and their weights [8, 8] and [N, 8, 8]."""
    at_clients = phase in (SEND, TRAIN)
    x = _centers(num_clients) if at_clients else [WIDTH / 2] * num_clients
    y = _copies_top(num_clients) + 2 if at_clients else _server_end(num_clients)
    moves: dict[str, dict[str, Any]] = {
        "on the way": {"x": x, "y": [y] * num_clients},
        "shared model": {"z": cells([[shared]], 1)},
    }
    if copies is not None:
        moves |= {f"copy {client}": {"z": cells([[copy]], 1)} for client, copy in enumerate(copies)}
    return moves


def untrained(num_clients: int) -> Moves:
    """Before the first round: all weights are zero."""
    nothing = np.zeros((num_clients, PIXELS, PIXELS))
    return moving(AVERAGE, nothing[0], nothing, num_clients)


def _weights(name: str, left: float, top: float, side: float) -> go.Heatmap:
    empty = cells([[np.zeros((PIXELS, PIXELS))]], 1)
    return heat_map(empty, left=left, top=top, pixel=side / PIXELS, name=name, scale=for_and_against(MAX_WEIGHT))


def _side(num_clients: int) -> float:
    return min(MAX_WIDTH, 0.82 * WIDTH / num_clients)


def _centers(num_clients: int) -> list[float]:
    """Where the clients' columns are."""
    return [WIDTH * (client + 0.5) / num_clients for client in range(num_clients)]


def _left(center: float, side: float) -> float:
    return center - side / 2


def _copies_top(num_clients: int) -> float:
    return 2 * (_side(num_clients) + WORDS)


def _tall(num_clients: int) -> float:
    """The height of the plane."""
    return _copies_top(num_clients) + WIRES + SERVER


def _server_end(num_clients: int) -> float:
    """Where the wires begin."""
    return _tall(num_clients) - SERVER - 2


def _wires(num_clients: int) -> dict[str, list[float | None]]:
    """Lines from the server to each client."""
    x: list[float | None] = []
    y: list[float | None] = []
    for center in _centers(num_clients):
        x += [WIDTH / 2, center, None]
        y += [_server_end(num_clients), _copies_top(num_clients) + 2, None]
    return {"x": x, "y": y}


def _add_words(fig: go.Figure, words: str, x: float, y: float, position: str, **options: str) -> None:
    fig.add_scatter(
        x=[x],
        y=[y],
        mode="text",
        text=[words],
        textposition=position,
        textfont_color=palette.theme().muted,
        hoverinfo="skip",
        **options,
    )
