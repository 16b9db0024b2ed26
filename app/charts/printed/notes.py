"""Lines, frames and annotations of a figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from matplotlib.transforms import blended_transform_factory

from app.charts.plot.annotations import SERIES
from app.charts.plot.line_labels import spread_apart
from app.charts.printed.looks import DASHES, rgba
from app.charts.printed.panel import DOMAIN, SCREEN_PX, Panel, Spec, Unprintable
from app.charts.printed.text import words

ABOVE, BELOW, TEXT = 4.0, 0.9, 5.0
MIDDLE = "middle"
POINTS = 72  # of an inch


def draw_shapes(panel: Panel) -> None:
    for shape in panel.layout.get("shapes", ()):
        ax, x_name, y_name = _place(panel, shape, shape.get("x0", 0.5), shape.get("y0", 0.5))
        transform = blended_transform_factory(
            ax.transAxes if _is_share(shape, "x") else ax.transData,
            ax.transAxes if _is_share(shape, "y") else ax.transData,
        )
        x = [_share(panel, shape[k], x_name) if shape.get("xref") == "paper" else shape[k] for k in ("x0", "x1")]
        y = [_share(panel, shape[k], y_name) if shape.get("yref") == "paper" else shape[k] for k in ("y0", "y1")]
        line = shape.get("line", {})
        look: dict[str, Any] = {
            "linewidth": line.get("width", 2) * panel.px,
            "linestyle": DASHES.get(line.get("dash", "solid"), "-"),
            "transform": transform,
            "zorder": BELOW if shape.get("layer") == "below" else ABOVE,
        }
        edge = rgba(line.get("color", "#444444"), shape.get("opacity", 1.0))
        limits = ax.get_xlim(), ax.get_ylim()
        if shape.get("type") == "line":
            ax.plot(x, y, color=edge, scalex=False, scaley=False, **look)
        elif shape.get("type") == "rect":
            fill = rgba(shape.get("fillcolor") or "rgba(0,0,0,0)", shape.get("opacity", 1.0))
            frame = Rectangle((x[0], y[0]), x[1] - x[0], y[1] - y[0], facecolor=fill, edgecolor=edge, **look)
            ax.add_patch(frame)
        else:
            raise Unprintable(f"A shape of type “{shape.get('type')}” has no printed form yet.")
        ax.set_xlim(limits[0])
        ax.set_ylim(limits[1])


def draw_annotations(panel: Panel, names_too: bool) -> None:
    """All annotations, without the names of the marks if not ``names_too``."""
    by_position: dict[Any, list[Annotation]] = {}
    for note in panel.layout.get("annotations", ()):
        is_name = note.get("name") == SERIES
        if note.get("visible") is False or not words(note.get("text")).text or (is_name and not names_too):
            continue
        drawn = _annotation(panel, note)
        if is_name and drawn.arrow_patch is None:
            by_position.setdefault((drawn.axes, drawn.xy[0]), []).append(drawn)
    for (ax, _), column in by_position.items():
        _spread(ax, column, 1.25 * SCREEN_PX * panel.px)


def _spread(ax: Any, column: Sequence[Annotation], line: float) -> None:
    """Moves names at the ends of lines apart until each has a ``line``, in points: print is smaller than the screen."""
    to_pixel = ax.transData.transform
    heights = [float(to_pixel((note.xy[0], note.xy[1]))[1]) for note in column]
    gap = line * ax.figure.dpi / POINTS
    top = ax.get_window_extent().y1
    for note, before, after in zip(column, heights, spread_apart(heights, gap, top), strict=True):
        x, y = note.get_position()
        note.set_position((x, y + (after - before) * POINTS / ax.figure.dpi))


def make_room(panel: Panel) -> None:
    """Extends axes whose ends are not given until the texts at data points fit above and below, as Plotly does."""
    for (_, y_name), ax in panel.axes.items():
        spec = panel.axis(y_name)
        if spec.get("range") is not None or panel.is_log(y_name):
            continue
        low, high = sorted(ax.get_ylim())
        for note in ax.texts:
            if isinstance(note, Annotation) and _is_at_data(note):
                box = note.get_window_extent().transformed(ax.transData.inverted())
                low, high = min(low, box.y0), max(high, box.y1)
        ax.set_ylim((high, low) if ax.yaxis_inverted() else (low, high))


def _is_at_data(note: Annotation) -> bool:
    """Whether a text is at a height of the data, next to its point."""
    coordinates: Any = note.xycoords
    return bool(coordinates[1] == "data") and note.arrow_patch is None


def _annotation(panel: Panel, note: Spec) -> Annotation:
    x, y = note.get("x", 0.5), note.get("y", 0.5)
    ax, x_name, y_name = _place(panel, note, x, y)
    point: Any = tuple(
        _share(panel, value, name)
        if note.get(f"{letter}ref") == "paper"
        else 10.0**value
        if panel.is_log(name) and not _is_share(note, letter)
        else float(panel.numbers([value], name)[0])
        for letter, value, name in (("x", x, x_name), ("y", y, y_name))
    )
    coordinates: Any = tuple("axes fraction" if _is_share(note, letter) else "data" for letter in "xy")
    px, font, has_arrow = panel.px, note.get("font", {}), bool(note.get("showarrow", True))
    aside = [note.get("xshift", 0) * px, note.get("yshift", 0) * px]
    look: dict[str, Any] = {"textcoords": "offset points"}
    if has_arrow:
        look |= _thread(panel, ax, note, point, aside)
    ground = note.get("bgcolor")
    return ax.annotate(
        panel.print_text(note.get("text")),
        point,
        xycoords=coordinates,
        **({"xytext": tuple(aside)} | look),
        ha=_across(note, x, has_arrow),
        va=_down(note, y, has_arrow),
        rotation=-note.get("textangle", 0),
        color=rgba(font.get("color") or panel.layout.get("font", {}).get("color", "#000000")),
        fontsize=font.get("size", SCREEN_PX) * px,
        fontweight="bold" if words(note.get("text")).is_bold else "normal",
        bbox={"facecolor": rgba(ground), "edgecolor": "none", "pad": 0.5} if ground else None,
        annotation_clip=False,
        zorder=TEXT,
    )


def _thread(panel: Panel, ax: Axes, note: Spec, point: tuple[float, ...], aside: list[float]) -> dict[str, Any]:
    """A line from the text to its point, and where the text is."""
    px = panel.px
    line = {
        "arrowstyle": "-" if note.get("arrowhead") == 0 else "->",
        "linewidth": note.get("arrowwidth", 1) * px,
        "color": rgba(note.get("arrowcolor", "#444444")),
        "shrinkA": 1,
        "shrinkB": note.get("standoff", 0) * px,
    }
    shift = (note.get("ax", -10) * px + aside[0], -note.get("ay", -30) * px + aside[1])
    if str(note.get("ayref", "pixel")) != "pixel":  # the text is at a height of the axis
        height = 10.0 ** note["ay"] if panel.is_log(str(note["ayref"])) else float(note["ay"])
        low, high = (ax.transData.transform((point[0], value))[1] for value in (point[1], height))
        shift = (shift[0], (high - low) * 72 / ax.figure.dpi)
    return {"xytext": shift, "arrowprops": line}


def _across(note: Spec, x: Any, has_arrow: bool) -> str:
    anchor = note.get("xanchor", "auto")
    if anchor == "auto" and not has_arrow and note.get("xref") == "paper":
        anchor = "left" if x <= 1 / 3 else "right" if x >= 2 / 3 else "center"
    if anchor == "auto" and has_arrow and note.get("ax"):
        anchor = "left" if note["ax"] > 0 else "right"
    return "center" if anchor == "auto" else str(anchor)


def _down(note: Spec, y: Any, has_arrow: bool) -> str:
    anchor = note.get("yanchor", "auto")
    if anchor == "auto" and not has_arrow and note.get("yref") == "paper":
        anchor = "bottom" if y <= 1 / 3 else "top" if y >= 2 / 3 else MIDDLE
    return {"auto": "center_baseline", MIDDLE: "center_baseline"}.get(anchor, str(anchor))


def _is_share(spec: Spec, letter: str) -> bool:
    reference = str(spec.get(f"{letter}ref", letter))
    return reference == "paper" or reference.endswith(" domain")


def _place(panel: Panel, spec: Spec, x: Any, y: Any) -> tuple[Axes, str, str]:
    """The axes of a mark, and their names; on paper coordinates the nearest ones."""
    x_name, y_name = (str(spec.get(f"{letter}ref", letter)).removesuffix(" domain") for letter in "xy")
    fits = [pair for pair in panel.axes if x_name in (pair[0], "paper") and y_name in (pair[1], "paper")] or list(
        panel.axes
    )

    def away(pair: tuple[str, str]) -> float:
        far = 0.0
        for reference, name, value in ((x_name, pair[0], x), (y_name, pair[1], y)):
            if reference == "paper":
                start, end = panel.axis(name).get("domain", DOMAIN)
                far += abs(float(np.clip(value, start, end)) - float(value)) + 1e-3 * abs((start + end) / 2 - value)
        return far

    chosen = min(fits, key=away)
    return panel.axes[chosen], *chosen


def _share(panel: Panel, value: float, name: str) -> float:
    """A share of the figure as a share of the plot that lies there."""
    start, end = panel.axis(name).get("domain", DOMAIN)
    return float((value - start) / (end - start))
