"""The images of a batch, and beside them what the server computes from the update."""

import math

import numpy as np
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.mosaic import GAP, PIXELS, WHITE, Cells, canvas, cells, heat_map

HEIGHT = 370
BLOCK = 46.0  # width of either half, in a plane 100 wide
HEAD = 6.0  # room for the words above


def figure(batch: int, ended: str) -> go.Figure:
    """Two empty halves, and below them ``ended``, the shipped result; ``moving`` fills the halves."""
    fig, columns = go.Figure(), columns_of(batch)
    nothing = cells([[]], 0)
    pixel = BLOCK / (columns * (PIXELS + GAP) - GAP)
    images = "image" if batch == 1 else f"{batch} images"
    for name, left, words in (
        ("images", 0.0, f"the client's {images}"),
        ("recovered", 100 - BLOCK, "computed by the server"),
    ):
        fig.add_trace(heat_map(nothing, left=left, top=BLOCK, pixel=pixel, name=name))
        fig.add_scatter(
            x=[left + BLOCK / 2],
            y=[BLOCK + HEAD / 2],
            mode="text",
            text=[words],
            textfont_color=palette.theme().muted,
            hoverinfo="skip",
        )
    fig.add_scatter(
        x=[50],
        y=[-HEAD / 2],
        mode="text",
        text=[ended],
        textfont_color=palette.theme().muted,
        hoverinfo="skip",
        meta=RESULT,
    )
    palette.base_layout(fig, height=HEIGHT)
    canvas(fig, 100, BLOCK + HEAD)
    return fig.update_yaxes(range=[-HEAD, BLOCK + HEAD])


def moving(images: np.ndarray, recovered: np.ndarray | None) -> Moves:
    """Pictures [B, 64] of pixels from 0 to 1; recovered ones may lie outside and are cut off."""
    halves = {"images": images} | ({} if recovered is None else {"recovered": recovered})
    return {name: {"z": _block(pictures)} for name, pictures in halves.items()}


def columns_of(batch: int) -> int:
    """How many images fit into a row, so that the block is about square."""
    return math.ceil(math.sqrt(batch))


def _block(pictures: np.ndarray) -> Cells:
    columns = columns_of(len(pictures))
    square = WHITE * pictures.clip(0, 1).reshape(-1, PIXELS, PIXELS)
    return cells([list(square[at : at + columns]) for at in range(0, len(square), columns)], columns)
