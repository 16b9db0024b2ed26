"""A figure as a thumbnail without text: lines, marks, bars and cells of a chart as an SVG of a few kilobytes."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from app.charts.plot.palette import LIGHT, on_paper, pairs
from app.components.shown import Shown

WIDTH, HEIGHT, PAD = 240, 132, 9
DASHES = {"dash": "5 3", "dot": "1.5 2.5", "dashdot": "5 2.5 1.5 2.5", "longdash": "8 3", "longdashdot": "8 3 1.5 3"}
MAX_MARKS = 40  # of a trace
TAILS = ("triangle-left", "triangle-right")
MAX_CELLS = 6_000
FINE = 2.0  # pixels of interpolated levels
OVERLAP = "2.4"  # of a row with the next one, against seams
Scale = Callable[[Any], np.ndarray]


def sketch(draw: Callable[[], Shown | None]) -> str:
    """The SVG of what is drawn in the light palette, or nothing; ``in_dark`` gives the same in the dark one."""
    with on_paper():
        shown = draw()
    if shown is None:
        return ""
    figure = shown.figure
    traces = [trace for trace in figure.data if (trace.xaxis or "x") == "x" and (trace.yaxis or "y") == "y"]
    x, y = _scale(figure, traces, "x", WIDTH), _scale(figure, traces, "y", HEIGHT)
    parts = [part for trace in traces for part in _drawn(figure, trace, x, y)]
    floor = HEIGHT - PAD / 2
    axis = f'<path d="M{PAD / 2:g} {floor:g}H{WIDTH - PAD / 2:g}" stroke="{LIGHT.line}"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" fill="none" stroke-linejoin="round">'
        f"{axis}{''.join(parts)}</svg>"
    )


def as_image(svg: str) -> str:
    """An address for ``img``: Streamlit removes drawings from HTML."""
    return f"data:image/svg+xml,{quote(svg)}"


def in_dark(svg: str) -> str:
    for light, dark in pairs().items():
        svg = svg.replace(f'"{light}"', f'"{dark}"')
    return svg


def _drawn(figure: go.Figure, trace: Any, x: Scale, y: Scale) -> Iterator[str]:
    if trace.type == "heatmap":
        yield from _cells(trace, x, y)
    elif trace.type == "contour":
        yield from _levels(trace, figure.layout.coloraxis, x, y)
    elif trace.type == "bar" and trace.orientation == "h" and trace.base is not None:
        yield from _bars(trace, x, y)
    elif trace.type == "scatter" and trace.x is not None and trace.y is not None:
        at = np.stack([x(trace.x), y(trace.y)], axis=1)
        mode = trace.mode or "lines"
        if trace.fill not in (None, "none"):
            return  # a band
        if "lines" in mode:
            yield from _line(trace, at)
        if "markers" in mode:
            yield from _marks(trace, at)


def _line(trace: Any, at: np.ndarray) -> Iterator[str]:
    """A gap where a value is missing."""
    is_known = np.isfinite(at).all(axis=1)
    starts = is_known & ~np.concatenate([[False], is_known[:-1]])
    path = "".join(
        f"{'M' if s else 'L'}{_n(a)} {_n(b)}" for (a, b), k, s in zip(at, is_known, starts, strict=True) if k
    )
    dash = DASHES.get(trace.line.dash or "")
    style = f' stroke-dasharray="{dash}"' if dash else ""
    width = min(float(trace.line.width or 2), 3)
    color, faint = _opaque(_color(trace.line.color))
    style += f' stroke-opacity="{faint}"' if faint else ""
    yield f'<path d="{path}" stroke="{escape(color)}" stroke-width="{width:g}"{style}/>'


def _bars(trace: Any, x: Scale, y: Scale) -> Iterator[str]:
    """Thin ones, from a base."""
    starts, rows = x(trace.base), y(trace.y)
    ends = x(np.asarray(trace.base, float) + np.asarray(trace.x, float))
    for start, end, row, color in zip(starts, ends, rows, _each(trace.marker.color, len(rows)), strict=True):
        yield f'<path d="M{_n(start)} {_n(row)}H{_n(end)}" stroke="{escape(_color(color))}" stroke-width="2"/>'


def _marks(trace: Any, at: np.ndarray) -> Iterator[str]:
    count = len(at)
    shared = trace.marker.color if trace.marker.color is not None else trace.line.color
    outline = trace.marker.line.color if trace.marker.line.width and isinstance(trace.marker.line.color, str) else None
    colors, symbols = _each(shared, count), _each(trace.marker.symbol, count)
    for i in range(0, count, max(1, -(-count // MAX_MARKS))):
        (a, b), color, symbol = at[i], colors[i], symbols[i]
        if np.isfinite([a, b]).all():
            yield _mark(a, b, escape(_color(color)), escape(outline or ""), str(symbol or ""))


def _mark(a: float, b: float, color: str, outline: str, symbol: str) -> str:
    if symbol == "star":
        angles = np.pi * (np.arange(10) / 5 - 0.5)
        radius = np.where(np.arange(10) % 2, 2.2, 5.2)
        points = zip(a + radius * np.cos(angles), b + radius * np.sin(angles), strict=True)
        return f'<polygon points="{" ".join(f"{_n(p)},{_n(q)}" for p, q in points)}" fill="{color}"/>'
    if symbol.endswith("-open"):
        return f'<circle cx="{_n(a)}" cy="{_n(b)}" r="3" stroke="{color}" stroke-width="1.4"/>'
    edge = f' stroke="{outline}"' if outline else ""
    return f'<circle cx="{_n(a)}" cy="{_n(b)}" r="{2 if symbol in TAILS else 3}" fill="{color}"{edge}/>'


def _cells(trace: Any, x: Scale, y: Scale) -> Iterator[str]:
    """Rows of equal neighbors are one rectangle."""
    z = np.asarray(trace.z, float)
    step = max(1, int(np.ceil(np.sqrt(z.size / MAX_CELLS))))
    z, xs, ys = z[::step, ::step], x(trace.x)[::step], y(trace.y)[::step]
    wide, high = abs(xs[-1] - xs[0]) / max(len(xs) - 1, 1), abs(ys[-1] - ys[0]) / max(len(ys) - 1, 1)
    scale = _colors(trace)
    for row, top in zip(z, ys, strict=True):
        edges = [0, *(np.flatnonzero(np.diff(row)) + 1), len(row)]
        for start, end in pairwise(edges):
            left = xs[start] - wide / 2
            yield (
                f'<rect x="{_n(left)}" y="{_n(top - high / 2)}" width="{_n(wide * (end - start))}" '
                f'height="{_n(high + 0.4)}" fill="{scale(row[start])}"/>'
            )


def _levels(trace: Any, coloraxis: Any, x: Scale, y: Scale) -> Iterator[str]:
    """A path for the points of each level, interpolated; nothing where a value is missing."""
    z, xs, ys = np.asarray(trace.z, float), x(trace.x), y(trace.y)
    across, down = np.arange(xs.min(), xs.max(), FINE), np.arange(ys.min(), ys.max(), FINE)
    order = np.argsort(ys)
    rows = np.array([np.interp(across, xs, row) for row in z[order]])
    fine = np.array([np.interp(down, ys[order], column) for column in rows.T]).T
    start, size = trace.contours.start, trace.contours.size
    level = np.floor(np.clip((fine - start) / size, 0, (trace.contours.end - start) / size - 1e-9))
    stops = [color for _, color in coloraxis.colorscale]  # at equal distances
    for one in np.unique(level[np.isfinite(level)]):
        share = (start + (one + 0.5) * size - coloraxis.cmin) / (coloraxis.cmax - coloraxis.cmin)
        (color,) = sample_colorscale(stops, [float(np.clip(share, 0, 1))])
        is_there = np.pad(level == one, ((0, 0), (1, 1))).astype(int)
        path = ""
        for top, row in zip(down, np.diff(is_there), strict=True):
            for begin, end in zip(np.flatnonzero(row > 0), np.flatnonzero(row < 0), strict=True):
                wide = _n(FINE * (end - begin))
                path += f"M{_n(across[begin])} {_n(top)}h{wide}v{OVERLAP}h-{wide}z"
        yield f'<path d="{path}" fill="{color}"/>'


def _colors(trace: Any) -> Callable[[float], str]:
    """Value -> color, for scales of steps and of stops."""
    stops, values = trace.colorscale, np.asarray(trace.z, float)
    low = np.nanmin(values) if trace.zmin is None else trace.zmin
    high = np.nanmax(values) if trace.zmax is None else trace.zmax

    def color(value: float) -> str:
        share = (value - low) / ((high - low) or 1)
        return escape(str([shade for start, shade in stops if start <= share + 1e-9][-1]))

    return color


def _scale(figure: go.Figure, traces: Sequence[Any], letter: str, length: int) -> Scale:
    """Values -> pixels, by the axis' range if it has one."""
    axis = figure.layout[f"{letter}axis"]
    is_log = axis.type == "log"

    def numbers(values: Any) -> np.ndarray:
        found = np.asarray(values, float)
        return np.log10(np.where(found > 0, found, np.nan)) if is_log else found

    known = [numbers(getattr(trace, letter)) for trace in traces if getattr(trace, letter) is not None]
    together = np.concatenate([values[np.isfinite(values)] for values in known]) if known else np.zeros(1)
    low, high = float(together.min()), float(together.max())
    is_reversed = axis.autorange == "reversed"
    if axis.range is not None and None not in axis.range:
        low, high = sorted(map(float, axis.range))
        is_reversed = axis.range[0] > axis.range[1]
    is_up = (letter == "y") != is_reversed

    def place(values: Any) -> np.ndarray:
        share = (numbers(values) - low) / ((high - low) or 1)
        return PAD + (length - 2 * PAD) * (1 - share if is_up else share)

    return place


def _each(value: Any, count: int) -> list[Any]:
    is_many = isinstance(value, list | tuple | np.ndarray)
    return list(value) if is_many and len(value) == count else [value] * count


def _color(value: Any) -> str:
    return LIGHT.ink if value is None else str(value)


def _opaque(color: str) -> tuple[str, str]:
    """``rgba(0,114,178,0.55)`` -> ``#0072B2``, ``0.55``; other colors as they are, with nothing."""
    if not color.startswith("rgba("):
        return color, ""
    *parts, opacity = color.removeprefix("rgba(").removesuffix(")").split(",")
    return "#" + "".join(f"{int(part):02X}" for part in parts), opacity


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
