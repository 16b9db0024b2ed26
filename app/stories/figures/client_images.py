"""A row of images for each of some clients, as long as it has many, and their number."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from app.charts.plot import palette
from app.stories.figures.mosaic import GAP, PIXELS, canvas, cells, heat_map

HEIGHT = 190
COLUMNS = 10  # images of the largest client
NUMBERS = 12.0  # room for the numbers, in pixels of an image


def figure(clients: Sequence[Sequence[np.ndarray]], sizes: Sequence[int]) -> go.Figure:
    """Images [8, 8] of each client, and its number of training images: the largest client's row has ten."""
    side = PIXELS + GAP
    tall = float(side * len(clients))
    rows = [images[:length] for images, length in zip(clients, lengths(sizes), strict=True)]
    fig = go.Figure(heat_map(cells(rows, COLUMNS), left=NUMBERS, top=tall, pixel=1))
    fig.add_scatter(
        x=[NUMBERS - 2] * len(clients),
        y=[tall - side * row - PIXELS / 2 for row in range(len(clients))],
        mode="text",
        text=[str(size) for size in sizes],
        textposition="middle left",
        textfont_color=palette.theme().muted,
        hoverinfo="skip",
    )
    palette.base_layout(fig, height=HEIGHT)
    return canvas(fig, NUMBERS + side * COLUMNS, tall)


def lengths(sizes: Sequence[int]) -> list[int]:
    """The number of images shown of each client, in proportion and at least one."""
    return [max(1, round(COLUMNS * size / max(sizes))) for size in sizes]
