"""Names next to steep curves that end at the same point, instead of a legend: each where the fewest curves pass."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from app.charts.plot.annotations import SERIES, annotate
from app.charts.plot.palette import theme, translucent

WIDTH, HEIGHT = 460, 320  # of a plot in half a page, in pixels
LETTER, LINE, ASIDE = 7, 17, 8  # a letter's width, a name's height, from a curve to its name
MIDDLE = HEIGHT / 2  # preferred
STEP = 3  # pixels between the points of a curve at which a name may meet it
MAX_COVERED = 10  # points of curves under the name of a curve in the background
LEVELS = np.arange(8, 95, 3)  # heights of the middle of a name, percent of the y axis


class Curve(NamedTuple):
    """A step curve through x [M] and y [M], the y rising, with its name. Earlier curves are labeled first."""

    name: str
    x: np.ndarray
    y: np.ndarray
    color: str
    is_bold: bool = False


def name_curves(
    fig: go.Figure,
    curves: Sequence[Curve],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    at_right: Sequence[tuple[str, float]] = (),
) -> list[str]:
    """Writes each name next to its curve; one that would cover another name is left out. Returns those left out.

    So is a name in the background (not bold, where others are) that would cover more than ``MAX_COVERED`` points of
    curves. ``at_right`` has the other texts at the right edge, each with the y of its lower edge.
    """
    traced = [_traced(_pixels(curve, x_range, y_range)) for curve in curves]
    taken = [_at_right(text, (y - y_range[0]) / (y_range[1] - y_range[0]) * HEIGHT) for text, y in at_right]
    has_background, left_out = any(curve.is_bold for curve in curves), list[str]()
    for i, curve in enumerate(curves):
        own, others = _pixels(curve, x_range, y_range), [points for j, points in enumerate(traced) if j != i]
        size = np.array([LETTER * len(curve.name), LINE])
        places = [place for place in _places(own, size) if _is_free(place[0], taken)]
        if not places:
            left_out.append(curve.name)
            continue
        met = [_met(box, others, traced[i]) for box, _, _ in places]
        best = min(range(len(places)), key=lambda k: (met[k], abs(places[k][2] - MIDDLE)))
        if has_background and not curve.is_bold and met[best] > MAX_COVERED:
            left_out.append(curve.name)
            continue
        box, is_left, level = places[best]
        taken.append(box)
        at = box[1][0] + ASIDE if is_left else box[0][0] - ASIDE
        note = {
            "name": SERIES,
            "x": x_range[0] + at / WIDTH * (x_range[1] - x_range[0]),
            "y": y_range[0] + level / HEIGHT * (y_range[1] - y_range[0]),
            "text": f"<b>{curve.name}</b>" if curve.is_bold else curve.name,
            "xanchor": "right" if is_left else "left",
            "xshift": -ASIDE if is_left else ASIDE,
            "showarrow": False,
            "borderpad": 0,
            "font": {"color": curve.color},
            "bgcolor": translucent(theme().paper, 0.75),
        }
        annotate(fig, [note])
    return left_out


def _at_right(text: str, bottom: float) -> np.ndarray:
    """[2, 2] the box of a text at the right edge of the plot."""
    return np.array([[WIDTH - LETTER * len(text), bottom], [WIDTH, bottom + LINE]])


def _pixels(curve: Curve, x_range: tuple[float, float], y_range: tuple[float, float]) -> np.ndarray:
    """[M, 2] from the lower left corner of the plot."""
    (left, right), (low, high) = x_range, y_range
    return np.stack([(curve.x - left) / (right - left) * WIDTH, (curve.y - low) / (high - low) * HEIGHT], axis=1)


def _traced(corners: np.ndarray) -> np.ndarray:
    """[P, 2] points along the steps: to the right, then up."""
    parts = [corners[:1]]
    for (x0, y0), (x1, y1) in pairwise(corners):
        across = np.arange(x0, x1, STEP) if x1 > x0 else np.array([x0])
        up = np.arange(y0, y1, STEP) if y1 > y0 else np.array([y1])
        parts += [np.stack([across, np.full(len(across), y0)], 1), np.stack([np.full(len(up), x1), up], 1)]
    return np.concatenate(parts)


def _places(own: np.ndarray, size: np.ndarray) -> list[tuple[np.ndarray, bool, float]]:
    """Boxes [2, 2] inside the plot, right and left of the curve at each level."""
    found = []
    for level in LEVELS / 100 * HEIGHT:
        x = own[min(int(np.searchsorted(own[:, 1], level)), len(own) - 1), 0]
        for is_left in (False, True):
            start = x - ASIDE - size[0] if is_left else x + ASIDE
            box = np.array([[start, level - size[1] / 2], [start + size[0], level + size[1] / 2]])
            if box[0, 0] >= 0 and box[1, 0] <= WIDTH:
                found.append((box, is_left, float(level)))
    return found


def _is_free(box: np.ndarray, taken: Sequence[np.ndarray]) -> bool:
    apart = np.array([ASIDE, 0])
    return not any((box[0] < other[1] + apart).all() and (other[0] - apart < box[1]).all() for other in taken)


def _met(box: np.ndarray, others: Sequence[np.ndarray], own: np.ndarray) -> float:
    """The number of curve points that a name would cover or touch; those of its own curve count more."""
    touched = box + np.array([[-ASIDE, 0], [ASIDE, 0]])
    met = sum(((points >= touched[0]) & (points <= touched[1])).all(axis=1).sum() for points in others)
    return float(met + 2 * ((own >= box[0]) & (own <= box[1])).all(axis=1).sum())
