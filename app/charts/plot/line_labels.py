"""Labels at the ends of lines, instead of a legend."""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from app.charts.plot.annotations import SERIES, annotate

SIZE = 13  # of letters that are 7 pixels wide


class End(NamedTuple):
    """The end of a line; x None: at the right edge of the plot."""

    text: str
    x: float | None
    y: float
    color: str


def label_ends(fig: go.Figure, ends: list[End], low: float, high: float, lines: int = 20) -> None:
    """Writes each text next to its point, moved apart where two would overlap, with a margin at the right.

    ``low`` and ``high`` are the ends of the y axis, ``lines`` how many labels fit above one another on it.
    """
    heights = spread_apart([end.y for end in ends], (high - low) / lines, high)
    annotate(
        fig,
        (
            {
                "name": SERIES,
                **({"xref": "paper", "x": 1} if end.x is None else {"x": end.x}),
                "y": y,
                "text": end.text,
                "showarrow": False,
                "xanchor": "left",
                "xshift": 9,
                "font": {"color": end.color},
            }
            for end, y in zip(ends, heights, strict=True)
        ),
    )
    size = fig.layout.font.size or SIZE
    fig.update_layout(margin_r=max((16 + round(7 * len(end.text) * size / SIZE) for end in ends), default=16))


def spread_apart(values: list[float], gap: float, ceiling: float = np.inf) -> list[float]:
    """Nearby positions in the same order, none above ``ceiling``, at least ``gap`` apart."""
    order = np.argsort(values, kind="stable")
    groups: list[tuple[float, int]] = []  # center and members of labels that touch
    for index in order:
        center, size = float(values[index]), 1
        while groups and center - groups[-1][0] < gap * (size + groups[-1][1]) / 2:
            before, members = groups.pop()
            center, size = (before * members + center * size) / (members + size), members + size
        groups.append((center, size))
    placed = [center + gap * (i - (size - 1) / 2) for center, size in groups for i in range(size)]
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    result = np.empty(len(values))
    result[order] = placed
    return result.tolist()
