"""Names beside the points of a scatter chart, in place of a legend."""

from typing import NamedTuple

import plotly.graph_objects as go

WIDE, HIGH = 0.3, 0.065  # what a name takes, as shares of the plot
ROUNDING = 1e-9  # what differs by less, relatively, is equal


class Point(NamedTuple):
    text: str
    x: float
    y: float
    color: str


def name_points(fig: go.Figure, points: list[Point]) -> None:
    """Each name right of its point, left of it near the right edge; lower where it would meet another.

    Points without a text stay without a name.
    """
    width, height = _extent([p.x for p in points]), _extent([p.y for p in points])
    left, low = min((p.x for p in points), default=0.0), min((p.y for p in points), default=0.0)
    placed: list[tuple[float, float]] = []
    for point in sorted((p for p in points if p.text), key=lambda p: -p.y):
        x, y = (point.x - left) / width, (point.y - low) / height
        on_left = x > 1 - 1.2 * WIDE
        start = x - WIDE if on_left else x
        while any(abs(start - other) < WIDE and abs(y - taken) < HIGH - ROUNDING for other, taken in placed):
            y -= HIGH
        placed.append((start, y))
        fig.add_annotation(
            x=point.x, y=low + y * height, text=point.text, showarrow=False, xanchor="right" if on_left else "left",
            xshift=-13 if on_left else 13, font={"color": point.color},
        )  # fmt: skip


def _extent(values: list[float]) -> float:
    """From the smallest to the largest; 1 where they differ by no more than the rounding of their digits."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return high - low if high - low > ROUNDING * max(abs(low), abs(high)) else 1.0
