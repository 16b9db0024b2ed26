"""Names next to the points of a scatter chart, instead of a legend."""

from typing import NamedTuple

import plotly.graph_objects as go

from app.charts.plot.annotations import SERIES, Note, annotate
from app.charts.plot.palette import theme, translucent

WIDE, HIGH = 0.3, 0.08  # the size of a name, as shares of the plot
BESIDE = 13  # pixels from a point to its name
ROUNDING = 1e-9  # smaller relative differences are ignored


class Point(NamedTuple):
    text: str
    x: float
    y: float
    color: str


def name_points(fig: go.Figure, points: list[Point], from_zero: bool = False) -> None:
    """Each name right of its point, or left of it near the right edge; if it would overlap another, lower with a line.

    Points without a text have no name. ``from_zero``: the x axis begins there, not at the first point.
    """
    across = [p.x for p in points] + [0.0] * from_zero
    width, height = _extent(across), _extent([p.y for p in points])
    left, low = min(across, default=0.0), min((p.y for p in points), default=0.0)
    placed: list[tuple[float, float]] = []
    notes: list[Note] = []
    for point in sorted((p for p in points if p.text), key=lambda p: -p.y):
        x, y = (point.x - left) / width, (point.y - low) / height
        on_left = x > 1 - 1.2 * WIDE
        start = x - WIDE if on_left else x
        while meets := [at for other, at in placed if abs(start - other) < WIDE and abs(y - at) < HIGH - ROUNDING]:
            y = min(meets) - HIGH
        placed.append((start, y))
        aside, anchor = (-BESIDE, "right") if on_left else (BESIDE, "left")
        place: dict[str, object] = {"y": low + y * height, "showarrow": False, "xshift": aside}
        if y < (point.y - low) / height:
            place = {"y": point.y, "ax": aside, "ayref": "y", "ay": low + y * height, **_thread(point.color)}
        notes.append(
            {
                "name": SERIES,
                "x": point.x,
                "text": point.text,
                "xanchor": anchor,
                "font": {"color": point.color},
                "borderpad": 0,
                "bgcolor": translucent(theme().paper, 0.75),  # over lines
                **place,
            }
        )
    annotate(fig, notes)


def _thread(color: str) -> dict[str, object]:
    """A thin line instead of an arrow."""
    return {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": color, "standoff": 3}


def _extent(values: list[float]) -> float:
    """The range of the values; 1 if they differ only by rounding."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return high - low if high - low > ROUNDING * max(abs(low), abs(high)) else 1.0
