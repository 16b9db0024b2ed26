"""Labels at the ends of lines, instead of a legend."""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from app.charts.plot.annotations import SERIES, Note, annotate

SIZE = 13  # of letters that are 7 pixels wide
BESIDE, LED = 9, 24  # pixels from the end of a line to its name, and to one that a line leads to
MOVED = 0.25  # of the height of a name: one moved by more could be taken for that of another line


class End(NamedTuple):
    """The end of a line; x None: at the right edge of the plot."""

    text: str
    x: float | None
    y: float
    color: str


def label_ends(fig: go.Figure, ends: list[End], low: float, high: float, lines: int = 20) -> None:
    """Writes each text next to its point, moved apart where two would overlap, with a margin at the right.

    A thin line leads to the point of a text that was moved. ``low`` and ``high`` are the ends of the y axis, ``lines``
    how many labels fit above one another on it.
    """
    gap = (high - low) / lines
    heights = spread_apart([end.y for end in ends], gap, high)
    is_moved = [abs(y - end.y) > MOVED * gap for end, y in zip(ends, heights, strict=True)]
    aside = LED if any(is_moved) else BESIDE
    placed = list(zip(ends, heights, is_moved, strict=True))
    annotate(fig, (_thread(end, y, aside) for end, y, moved in placed if moved))
    annotate(
        fig,
        (
            {
                "name": SERIES,
                **_across(end),
                "y": y,
                "text": end.text,
                "showarrow": False,
                "xanchor": "left",
                "xshift": aside,
                "font": {"color": end.color},
            }
            for end, y, _ in placed
        ),
    )
    size = fig.layout.font.size or SIZE
    margin = 7 + aside
    fig.update_layout(margin_r=max((margin + round(7 * len(end.text) * size / SIZE) for end in ends), default=margin))


def _thread(end: End, y: float, aside: int) -> Note:
    """A line from the point to ``aside`` pixels right of it at the height y: an arrow without text and head."""
    return {
        **_across(end),
        "y": end.y,
        "ax": aside,
        "ayref": "y",
        "ay": y,
        "text": "",
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": end.color,
        "standoff": 5,
    }


def _across(end: End) -> dict[str, object]:
    return {"xref": "paper", "x": 1} if end.x is None else {"x": end.x}


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
