"""One figure of the screen drawn into a part of a sheet: its axes, in the grid that their domains describe."""

import base64
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from app.charts.plot import palette
from app.charts.printed.looks import TRANSPARENT, rgba
from app.charts.printed.text import words

SCREEN_PX = 13.0  # the font size of the screen: all lengths in pixels are scaled with the font
DOMAIN = (0.0, 1.0)
INK = palette.LIGHT.ink
Spec = Mapping[str, Any]


class Unprintable(ValueError):
    """A chart that has no printed form."""


@dataclass
class Panel:
    """A figure as plain values.

    ``px`` is the length of a pixel in points, ``letters`` the longest line of a label. ``axes`` are by name, such as
    ``("x", "y2")``; ``categories`` are the words on an axis. ``series`` are the named traces (``series.Series``),
    ``hollow`` the symbols and colors of marks that are hollow in print only.
    """

    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    px: float
    print_text: Callable[[object], str]
    letters: int
    axes: dict[tuple[str, str], Axes] = field(default_factory=dict)
    categories: dict[str, dict[str, int]] = field(default_factory=dict)
    series: list[Any] = field(default_factory=list)
    hollow: set[tuple[str, Any]] = field(default_factory=set)

    @classmethod
    def of(cls, figure: go.Figure, px: float, print_text: Callable[[object], str], letters: int) -> "Panel":
        traces = [_decoded(trace.to_plotly_json()) for trace in figure.data]
        shown = [trace for trace in traces if trace.get("visible", True) is True]
        panel = cls(shown, figure.layout.to_plotly_json(), px, print_text, letters)
        if not shown:
            raise Unprintable("This chart is empty.")
        return panel

    @property
    def first(self) -> Axes:
        return next(iter(self.axes.values()))

    def axis(self, name: str) -> dict[str, Any]:
        """The description of an axis: ``x2`` is the layout's ``xaxis2``."""
        found: dict[str, Any] = self.layout.get(f"{name[0]}axis{name[1:]}", {})
        return found

    def of_trace(self, trace: Spec) -> Axes:
        return self.axes[names_of(trace)]

    def is_log(self, name: str) -> bool:
        return bool(self.axis(name).get("type") == "log")

    def numbers(self, values: Any, name: str) -> np.ndarray:
        """Positions on the axis ``name``; words are categories, in the order of their appearance."""
        given = np.asarray([] if values is None else values, dtype=object)
        if not any(isinstance(value, str) for value in given.flat):
            return np.asarray([np.nan if value is None else value for value in given.flat], float).reshape(given.shape)
        known = self.categories.setdefault(name, {})
        return np.array([known.setdefault(str(value), len(known)) for value in given.flat], float)

    def label(self, text: object) -> str:
        """A name in at most two lines, truncated."""
        parts = textwrap.wrap(self.print_text(text), self.letters) or [""]
        return "\n".join(parts[:2]) + (" …" if len(parts) > 2 else "")

    def pairs(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys(names_of(trace) for trace in self.traces))


def _decoded(value: Any) -> Any:
    """Arrays that Plotly has written in base 64 as arrays again."""
    if isinstance(value, dict):
        if "bdata" not in value:
            return {name: _decoded(own) for name, own in value.items()}
        shape = [int(length) for length in str(value.get("shape", -1)).split(",")]
        return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).reshape(shape)
    return value


def names_of(trace: Spec) -> tuple[str, str]:
    return str(trace.get("xaxis", "x")), str(trace.get("yaxis", "y"))


def make_axes(sheet: Figure, place: SubplotSpec, panel: Panel) -> None:
    """Axes for all traces, in rows and columns as long as their domains."""
    pairs = panel.pairs()
    across = sorted({_domain(panel, x) for x, _ in pairs})
    down = sorted({_domain(panel, y) for _, y in pairs}, reverse=True)
    grid = place.subgridspec(
        len(down),
        len(across),
        width_ratios=[end - start for start, end in across],
        height_ratios=[end - start for start, end in down],
    )
    for x, y in pairs:
        where = grid[down.index(_domain(panel, y)), across.index(_domain(panel, x))]
        panel.axes[x, y] = sheet.add_subplot(where)
        if panel.is_log(x):
            panel.axes[x, y].set_xscale("log")
        if panel.is_log(y):
            panel.axes[x, y].set_yscale("log")


def finish_axes(panel: Panel) -> None:
    """Ranges, ticks, titles and lines, after the marks are drawn."""
    for (x, y), ax in panel.axes.items():
        ground = rgba(panel.layout.get("plot_bgcolor") or "rgba(0,0,0,0)")
        ax.set_facecolor(ground)
        ax.patch.set_visible(ground != TRANSPARENT)
        for side in ax.spines.values():
            side.set_visible(False)
        _finish(panel, ax, x, "bottom")
        _finish(panel, ax, y, "left")
        if panel.axis(y).get("scaleanchor") or panel.axis(x).get("scaleanchor"):
            ax.set_aspect("equal", adjustable="box")


def wrap_titles(panel: Panel) -> None:
    """Breaks the title of an axis into lines as long as the axis."""
    for ax in panel.axes.values():
        box = ax.get_window_extent()
        for axis, room in ((ax.xaxis, box.width), (ax.yaxis, box.height)):
            extent = axis.label.get_window_extent()
            length = extent.width if axis is ax.xaxis else extent.height
            text = axis.label.get_text()
            if length > room > 0:
                letters = max(8, int(len(text) * room / length))
                axis.label.set_text("\n".join(textwrap.wrap(text, letters)))


def thin_labels(panel: Panel) -> None:
    """Hides labels of ticks that would overlap others; bold ones have priority."""
    for ax in panel.axes.values():
        for axis in (ax.xaxis, ax.yaxis):
            kept: list[Any] = []
            shown = [label for label in axis.get_ticklabels() if label.get_visible() and label.get_text()]
            for label in sorted(shown, key=lambda label: label.get_fontweight() != "bold"):
                box = label.get_window_extent()
                if any(box.overlaps(other) for other in kept):
                    label.set_visible(False)
                else:
                    kept.append(box)


def _finish(panel: Panel, ax: Axes, name: str, side: str) -> None:
    spec, px = panel.axis(name), panel.px
    letter: Any = name[0]
    axis: Any = ax.xaxis if letter == "x" else ax.yaxis
    _set_range(panel, ax, name)
    if spec.get("visible") is False:
        axis.set_visible(False)
        return
    line = rgba(spec.get("linecolor") or INK)
    ax.spines[side].set_visible(bool(spec.get("showline", letter == "x")))
    ax.spines[side].set_color(line)
    ax.spines[side].set_linewidth(max(0.5, px))
    has_ticks = spec.get("ticks") == "outside"
    size = px * spec.get("tickfont", {}).get("size", 12)
    axis.set_tick_params(
        length=spec.get("ticklen", 4) * px if has_ticks else 0,
        width=max(0.4, px),
        color=line,
        labelcolor=INK,
        labelsize=size,
        pad=3 * px,
    )
    if spec.get("side") == "top":
        axis.set_ticks_position("top")
        axis.set_label_position("top")
    _set_ticks(panel, axis, name)
    if spec.get("showticklabels") is False:
        axis.set_tick_params(labelleft=False, labelbottom=False, labeltop=False)
    title = spec.get("title", {})
    text = panel.print_text(title.get("text"))
    axis.set_label_text(text, color=INK, fontsize=px * title.get("font", {}).get("size", SCREEN_PX))
    axis.labelpad = 4 * px
    ax.set_axisbelow(True)
    if spec.get("showgrid"):
        ax.grid(True, axis=letter, color=rgba(spec.get("gridcolor") or palette.LIGHT.line), linewidth=max(0.4, px))
    else:
        ax.grid(False, axis=letter)


def _set_range(panel: Panel, ax: Axes, name: str) -> None:
    spec, is_x = panel.axis(name), name[0] == "x"
    given = spec.get("range")
    if given is not None and None not in given:
        ends = [10.0 ** float(end) if panel.is_log(name) else float(end) for end in given]
    else:
        low, high = sorted(ax.get_xlim() if is_x else ax.get_ylim())
        if spec.get("rangemode") == "tozero" and not panel.is_log(name):
            low, high = _from_zero(ax, is_x, low, high)
        ends = [high, low] if spec.get("autorange") == "reversed" else [low, high]
    (ax.set_xlim if is_x else ax.set_ylim)(*ends)


def _from_zero(ax: Axes, is_x: bool, low: float, high: float) -> tuple[float, float]:
    """Start the axis at zero, without a margin, if no value is below."""
    data = ax.dataLim
    least, most = (data.x0, data.x1) if is_x else (data.y0, data.y1)
    return (0.0 if least >= 0 else low), (0.0 if most <= 0 else high)


def _set_ticks(panel: Panel, axis: Any, name: str) -> None:
    spec = panel.axis(name)
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if name in panel.categories and spec.get("tickvals") is None:
        known = panel.categories[name]
        axis.set_ticks(list(known.values()), [panel.label(text) for text in known])
    elif spec.get("tickvals") is not None:
        values = panel.numbers(spec["tickvals"], name)
        texts = spec.get("ticktext")
        labels = [_number(value) for value in values] if texts is None else [panel.label(t) for t in texts]
        axis.set_ticks(values, labels[: len(values)])
        _embolden(axis, [] if texts is None else [words(text).is_bold for text in texts])
    else:
        if not panel.is_log(name):
            axis.set_major_locator(MaxNLocator(nbins=spec.get("nticks") or 6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))


def _embolden(axis: Any, is_bold: list[bool]) -> None:
    for label, bold in zip(axis.get_ticklabels(), is_bold, strict=False):
        if bold:
            label.set_fontweight("bold")


def _number(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def _domain(panel: Panel, name: str) -> tuple[float, float]:
    start, end = panel.axis(name).get("domain", DOMAIN)
    return float(start), float(end)
