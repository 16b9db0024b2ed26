"""Small pictures in rows and columns, as one heat map."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.plot import palette

PIXELS = 8  # a picture is as wide as high
GAP = 1  # pixels between two pictures
WHITE = 16  # the brightest pixel of a digit, as stored
TOP = {"constrain": "domain", "constraintoward": "top"}  # where a narrow figure keeps its plane
Cells = list[list[float | None]]


def cells(rows: Sequence[Sequence[np.ndarray]], columns: int) -> Cells:
    """Rows of pictures [8, 8] as the values of one heat map, from top to bottom; missing pictures are gaps."""
    side = PIXELS + GAP
    whole = np.full((side * len(rows), side * columns), np.nan)
    for r, pictures in enumerate(rows):
        for c, picture in enumerate(pictures):
            whole[r * side : r * side + PIXELS, c * side : c * side + PIXELS] = picture
    return [[None if np.isnan(value) else float(value) for value in row] for row in whole]


def heat_map(
    z: Cells, *, left: float, top: float, pixel: float, name: str | None = None, scale: dict[str, Any] | None = None
) -> go.Heatmap:
    """``z`` with its upper left corner at a point of the plane, a pixel so wide; digits unless ``scale`` is given."""
    return go.Heatmap(
        z=z,
        x0=left + pixel / 2,
        dx=pixel,
        y0=top - pixel / 2,
        dy=-pixel,
        name=name,
        showscale=False,
        hoverinfo="skip",
        hoverongaps=False,
        **(scale or greys()),
    )


def greys() -> dict[str, Any]:
    """The colors of a digit, of pixels from 0 to 16."""
    shade = palette.theme()
    return {"colorscale": [[0, shade.second], [1, shade.ink]], "zmin": 0, "zmax": WHITE}


def for_and_against(most: float) -> dict[str, Any]:
    """The colors of weights: blue for a class, red against it, from -most to most."""
    against, in_favor = (palette.HUES[hue][palette.is_dark()] for hue in ("vermilion", "blue"))
    return {"colorscale": [[0, against], [0.5, palette.theme().second], [1, in_favor]], "zmin": -most, "zmax": most}


def canvas(fig: go.Figure, width: float, height: float) -> go.Figure:
    """A plane without axes, 0 to ``width`` and 0 to ``height``, equally long in both directions."""
    fig.update_layout(showlegend=False, margin={"t": 0, "b": 0, "l": 0, "r": 0})
    fig.update_xaxes(range=[0, width], visible=False, fixedrange=True, constrain="domain")
    return fig.update_yaxes(range=[0, height], visible=False, fixedrange=True, scaleanchor="x", **TOP)
