"""Draws each kind of trace that our charts use: a function for each."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from app.charts.printed.looks import DASHES, SCALES, TRANSPARENT, color_map, each, marker, rgba
from app.charts.printed.mark_colors import mark_colors, scalar_colors, scale_of
from app.charts.printed.panel import Panel, Spec, Unprintable, names_of
from app.charts.printed.text import words

HEAT, BAR, LINE, MARK = 1.0, 1.5, 2.0, 2.5  # z-order
MAX_TRACES = 1000  # within a kind the later trace covers
MAX_CELLS = 2000  # of a heat map as shapes; more become a picture
DPI = 300  # of that picture
GAP_PX = 0.7  # between its rows or columns
SHORT = 2  # letters of a unit
COLOR_BAR = "color bar"
SPOTS = 6  # markers along a line
HOLLOW_PX = 1.4  # the edge of hollow ones


def draw(panel: Panel) -> None:
    for i, trace in enumerate(panel.traces):
        kind = str(trace.get("type", "scatter"))
        if kind not in KINDS:
            raise Unprintable(f"A chart with a trace of type “{kind}” has no printed form.")
        KINDS[kind](panel, panel.of_trace(trace), trace, i)


def check(panel: Panel) -> None:
    """Raises ``Unprintable`` for a kind of trace that is not known here."""
    for trace in panel.traces:
        kind = str(trace.get("type", "scatter"))
        if kind not in KINDS:
            raise Unprintable(f"{NAMES.get(kind, f'A trace of type “{kind}”')} has no printed form yet.")


def _scatter(panel: Panel, ax: Axes, trace: Spec, number: int) -> None:
    above = number / MAX_TRACES
    x, y = (panel.numbers(trace.get(letter), name) for letter, name in zip("xy", names_of(trace), strict=True))
    n = min(len(x), len(y))
    x, y, mode = x[:n], y[:n], str(trace.get("mode", "lines"))
    opacity = float(trace.get("opacity", 1.0))
    if not n:
        return
    _area(ax, trace, x, y, opacity, above)
    line = trace.get("line", {})
    if "lines" in mode and line.get("width", 2):
        known = np.isfinite(x) & np.isfinite(y) if trace.get("connectgaps") else slice(None)
        ax.plot(
            x[known],
            y[known],
            drawstyle={"hv": "steps-post", "vh": "steps-pre", "hvh": "steps-mid"}.get(line.get("shape"), "default"),
            color=rgba(line.get("color", "#1f77b4"), opacity),
            linewidth=line.get("width", 2) * panel.px,
            linestyle=DASHES.get(line.get("dash", "solid"), "-"),
            solid_capstyle="butt",
            dash_capstyle="butt",
            clip_on=bool(trace.get("cliponaxis", True)),
            zorder=LINE + above,
            **_spots(panel, number, n),
        )
    _whiskers(panel, ax, trace, x, y, above)
    if "markers" in mode:
        _markers(panel, ax, trace, x, y, above)
    if "text" in mode:
        _texts(panel, ax, trace, x, y)


def _spots(panel: Panel, number: int, n: int) -> dict[str, Any]:
    """The symbol of a named line, a few times along it: on the screen it is at the end, but prints may lack colors."""
    found = [i for i, one in enumerate(panel.series) if one.trace == number and one.symbol]
    if not found or n <= 2 * SPOTS or "markers" in str(_seen_mode(panel.traces[number])):
        return {}
    one = panel.series[found[0]]
    shape, is_hollow = marker(one.symbol)
    step = n / SPOTS
    return {
        "marker": shape,
        "markevery": (int(step * (found[0] + 0.5) / len(panel.series)), max(1, int(step))),
        "markersize": 7 * panel.px * SCALES.get(shape, 1.0),
        "markerfacecolor": "white" if is_hollow else rgba(one.color),
        "markeredgewidth": HOLLOW_PX * panel.px if is_hollow else 0,
    }


def _seen_mode(trace: Spec) -> str:
    """The mode, without markers that only the pointer finds."""
    mode = str(trace.get("mode", "lines"))
    return mode.replace("+markers", "") if trace.get("marker", {}).get("opacity") == 0 else mode


def _area(ax: Axes, trace: Spec, x: np.ndarray, y: np.ndarray, opacity: float, above: float) -> None:
    fill = trace.get("fill", "none")
    if fill == "none":
        return
    color = rgba(trace.get("fillcolor") or trace.get("line", {}).get("color", "#1f77b4"), opacity)
    if fill == "toself":
        gaps = np.flatnonzero(~np.isfinite(x) | ~np.isfinite(y))
        for own_x, own_y in zip(np.split(x, gaps), np.split(y, gaps), strict=True):
            ax.fill(own_x, own_y, facecolor=color, edgecolor="none", zorder=LINE - 0.2 + above)
    elif fill == "tozeroy":
        ax.fill_between(x, y, facecolor=color, edgecolor="none", zorder=LINE - 0.2 + above)
    else:
        raise Unprintable(f"An area filled “{fill}” has no printed form yet.")


def _whiskers(panel: Panel, ax: Axes, trace: Spec, x: np.ndarray, y: np.ndarray, above: float) -> None:
    for letter in "xy":
        error = trace.get(f"error_{letter}", {})
        if error.get("array") is None or error.get("visible") is False:
            continue
        lengths = np.nan_to_num(np.asarray(error["array"], float))
        ax.errorbar(
            x,
            y,
            **{f"{letter}err": lengths},
            fmt="none",
            ecolor=rgba(error.get("color", "#444444")),
            elinewidth=error.get("thickness", 2) * panel.px,
            capthick=error.get("thickness", 2) * panel.px,
            capsize=error.get("width", 4) * panel.px,
            zorder=MARK - 0.1 + above,
            clip_on=bool(trace.get("cliponaxis", True)),
        )


def _markers(panel: Panel, ax: Axes, trace: Spec, x: np.ndarray, y: np.ndarray, above: float) -> None:
    given, n = trace.get("marker", {}), len(x)
    colors = mark_colors(panel, trace, n)
    sizes = _diameters(given, n)
    edge = given.get("line", {})
    edge_colors, edge_widths = each(edge.get("color"), n, None), each(edge.get("width"), n, 0)
    symbols = each(given.get("symbol"), n, "circle")
    is_seen = np.isfinite(x) & np.isfinite(y)
    for symbol in dict.fromkeys(map(str, symbols)):
        shape, is_hollow = marker(symbol)
        own = [i for i in range(n) if str(symbols[i]) == symbol and is_seen[i] and colors[i][3] > 0]
        if not own:
            continue
        inside = [_inside(panel, symbol, colors[i], is_hollow) for i in own]
        edges = [
            colors[i] if face != colors[i] or edge_colors[i] is None else rgba(edge_colors[i])
            for i, face in zip(own, inside, strict=True)
        ]
        ax.scatter(
            x[own],
            y[own],
            s=[(sizes[i] * panel.px * SCALES.get(shape, 1.0)) ** 2 for i in own],
            marker=shape,
            facecolors=inside,
            edgecolors=edges,
            linewidths=[
                max(0.0 if face == colors[i] else HOLLOW_PX, edge_widths[i] or 0) * panel.px
                for i, face in zip(own, inside, strict=True)
            ],
            clip_on=bool(trace.get("cliponaxis", True)),
            zorder=MARK + above,
        )
    if given.get("showscale"):
        numbers = np.asarray(each(given.get("color"), n, np.nan), float)
        _color_bar(panel, ax, scalar_colors(scale_of(panel, given), numbers), given.get("colorbar", {}))


def _inside(panel: Panel, symbol: str, color: Any, is_hollow: bool) -> Any:
    """The fill of a marker: none if it is hollow on the screen, white if it is hollow only in print."""
    if is_hollow:
        return TRANSPARENT
    return (1.0, 1.0, 1.0, 1.0) if (symbol, color) in panel.hollow else color


def _diameters(given: Spec, n: int) -> np.ndarray:
    """Pixels."""
    sizes = np.asarray(each(given.get("size"), n, 6), float)
    reference = given.get("sizeref")
    if reference:
        sizes = np.sqrt(2 * sizes / reference) if given.get("sizemode") == "area" else sizes / reference
    return np.maximum(np.nan_to_num(sizes), given.get("sizemin", 0) * 2)


def _texts(panel: Panel, ax: Axes, trace: Spec, x: np.ndarray, y: np.ndarray) -> None:
    n, font = len(x), trace.get("textfont", {})
    texts, places = each(trace.get("text"), n, ""), each(trace.get("textposition"), n, "middle center")
    room = _diameters(trace.get("marker", {}), n) / 2 + 3 if "markers" in str(trace.get("mode")) else np.zeros(n)
    colors, sizes = each(font.get("color"), n, panel_ink(panel)), each(font.get("size"), n, 12)
    for i in range(n):
        shown = words(texts[i])
        if not shown.text or not np.isfinite(x[i] + y[i]):
            continue
        above, aside = str(places[i]).split(" ")
        up, along = {"top": 1, "middle": 0, "bottom": -1}[above], {"left": -1, "center": 0, "right": 1}[aside]
        ax.annotate(
            panel.print_text(texts[i]),
            (x[i], y[i]),
            xytext=(along * room[i] * panel.px, up * room[i] * panel.px),
            textcoords="offset points",
            ha={-1: "right", 0: "center", 1: "left"}[along],
            va={1: "bottom", 0: "center_baseline", -1: "top"}[up],
            color=rgba(colors[i]),
            fontsize=sizes[i] * panel.px,
            fontweight="bold" if shown.is_bold else "normal",
            annotation_clip=False,
            zorder=5,
        )


def panel_ink(panel: Panel) -> str:
    return str(panel.layout.get("font", {}).get("color", "#000000"))


def _bar(panel: Panel, ax: Axes, trace: Spec, number: int) -> None:
    above = number / MAX_TRACES
    is_flat, (x_name, y_name) = trace.get("orientation") == "h", names_of(trace)
    at = panel.numbers(trace.get("y" if is_flat else "x"), y_name if is_flat else x_name)
    long = panel.numbers(trace.get("x" if is_flat else "y"), x_name if is_flat else y_name)
    if trace.get("y" if is_flat else "x") is None:
        at = np.arange(len(long), dtype=float)
    n, given = len(long), trace.get("marker", {})
    width, shift = _bar_width(panel, trace, at)
    base = _bar_base(panel, trace, at, long, is_flat)
    edge, pattern = given.get("line", {}), given.get("pattern", {}).get("shape")
    opacity = each(given.get("opacity"), n, 1.0)
    face = [rgba(c, float(o)) for c, o in zip(each(given.get("color"), n, "#1f77b4"), opacity, strict=True)]
    draw_bars = ax.barh if is_flat else ax.bar
    draw_bars(
        at + shift,
        long,
        width,
        base,
        color=face,
        edgecolor=[rgba(c) for c in each(edge.get("color"), n, "#FFFFFF" if pattern else "#00000000")],
        linewidth=(each(edge.get("width"), 1, 0)[0] or 0) * panel.px,
        hatch=str(pattern) * 4 if pattern else None,
        zorder=BAR + above,
    )


def _bar_width(panel: Panel, trace: Spec, at: np.ndarray) -> tuple[Any, float]:
    """The width of the bars, and how far they are from their positions."""
    steps = np.diff(np.unique(at))
    room = (steps.min() if len(steps) else 1.0) * (1 - panel.layout.get("bargap", 0.2))
    if trace.get("width") is not None:
        return np.asarray(trace["width"], float), 0.0
    group = [t for t in panel.traces if t.get("type") == "bar" and names_of(t) == names_of(trace)]
    if panel.layout.get("barmode", "group") != "group" or len(group) < 2:
        return room, 0.0
    number = next(i for i, other in enumerate(group) if other is trace)
    return room / len(group), room * ((number + 0.5) / len(group) - 0.5)


def _bar_base(panel: Panel, trace: Spec, at: np.ndarray, long: np.ndarray, is_flat: bool) -> Any:
    """The base of the bars; stacked ones begin at the previous ones."""
    if trace.get("base") is not None:
        return np.asarray(trace["base"], float)
    if panel.layout.get("barmode") not in ("stack", "relative"):
        return 0.0
    base = np.zeros(len(long))
    for other in panel.traces:
        if other is trace:
            return base
        if other.get("type") == "bar" and names_of(other) == names_of(trace):
            values = panel.numbers(other.get("x" if is_flat else "y"), names_of(trace)[not is_flat])
            base += np.where(np.sign(values) == np.sign(long), values, 0.0)
    return base


def _heatmap(panel: Panel, ax: Axes, trace: Spec, number: int) -> None:
    above = number / MAX_TRACES
    z = np.ma.masked_invalid(np.asarray(trace["z"], float))
    x_name, y_name = names_of(trace)
    x = panel.numbers(trace["x"], x_name) if trace.get("x") is not None else np.arange(z.shape[1], dtype=float)
    y = panel.numbers(trace["y"], y_name) if trace.get("y") is not None else np.arange(z.shape[0], dtype=float)
    scale = scale_of(panel, trace)
    low, high = trace.get("zmin", scale.get("cmin")), trace.get("zmax", scale.get("cmax"))
    norm = Normalize(z.min() if low is None else low, z.max() if high is None else high)
    is_picture = z.size > MAX_CELLS
    x_edges, y_edges = _edges(x), _edges(y)
    drawn = ax.pcolormesh(
        x_edges,
        y_edges,
        z,
        cmap=color_map(scale.get("colorscale", "Cividis")),
        norm=norm,
        edgecolor="none" if is_picture else "face",
        linewidth=0.1,
        rasterized=is_picture,
        zorder=HEAT + above,
    )
    gap: dict[str, Any] = {"colors": "white", "linewidth": GAP_PX * panel.px, "zorder": HEAT + 0.1 + above}
    if trace.get("ygap"):
        ax.hlines(y_edges, x_edges[0], x_edges[-1], **gap)
    if trace.get("xgap"):
        ax.vlines(x_edges, y_edges[0], y_edges[-1], **gap)
    ax.margins(0)
    _cell_texts(panel, ax, trace, x, y)
    if trace.get("showscale", True):
        _color_bar(panel, ax, drawn, trace.get("colorbar") or scale.get("colorbar") or {})


def _cell_texts(panel: Panel, ax: Axes, trace: Spec, x: np.ndarray, y: np.ndarray) -> None:
    if not trace.get("texttemplate") or trace.get("text") is None:
        return
    font = trace.get("textfont", {})
    for (row, column), text in np.ndenumerate(np.asarray(trace["text"], object)):
        if text not in (None, ""):
            ax.text(
                float(x[column]),
                float(y[row]),
                panel.print_text(text),
                ha="center",
                va="center_baseline",
                fontsize=font.get("size", 12) * panel.px,
                color=rgba(font.get("color", "#000000")),
                zorder=5,
            )


def _contour(panel: Panel, ax: Axes, trace: Spec, number: int) -> None:
    above = number / MAX_TRACES
    z = np.ma.masked_invalid(np.asarray(trace["z"], float))
    x = np.asarray(trace["x"] if trace.get("x") is not None else np.arange(z.shape[1]), float)
    y = np.asarray(trace["y"] if trace.get("y") is not None else np.arange(z.shape[0]), float)
    scale, given, line = scale_of(panel, trace), trace.get("contours", {}), trace.get("line", {})
    low, high = float(given.get("start", z.min())), float(given.get("end", z.max()))
    size = float(given.get("size") or (high - low) / 12 or 1.0)
    levels = np.arange(low, high + size / 2, size)
    norm = Normalize(scale.get("cmin", trace.get("zmin", low)), scale.get("cmax", trace.get("zmax", high)))
    if given.get("coloring", "fill") == "fill":
        drawn = ax.contourf(
            x, y, z, levels, cmap=color_map(scale.get("colorscale", "Cividis")), norm=norm, extend="both", zorder=HEAT
        )
        if trace.get("showscale", True) and panel.layout.get("coloraxis", {}).get("showscale", True):
            _color_bar(panel, ax, ScalarMappable(norm, drawn.cmap), scale.get("colorbar") or {})
    if line.get("width", 0.5):
        ax.contour(
            x,
            y,
            z,
            levels,
            colors=[rgba(line.get("color", "#444444"))],
            linewidths=line.get("width", 0.5) * panel.px,
            zorder=HEAT + 0.1 + above,
        )


def _color_bar(panel: Panel, ax: Axes, drawn: Any, given: Spec) -> None:
    sheet, px = ax.figure, panel.px
    bar = sheet.colorbar(drawn, ax=ax, aspect=30, pad=0.02, fraction=0.06)
    bar.ax.set_label(COLOR_BAR)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2 * px, width=max(0.4, px), labelsize=12 * px, pad=2 * px)
    if given.get("tickvals") is not None:
        texts = given.get("ticktext")
        values = [float(value) for value in given["tickvals"]]
        bar.set_ticks(values, labels=None if texts is None else [panel.print_text(text) for text in texts])
    bar.minorticks_off()
    title = panel.print_text(given.get("title", {}).get("text"))
    bar.set_label(title, fontsize=12 * px, labelpad=3 * px, rotation=90 if len(title) > SHORT else 0)


def _edges(middles: np.ndarray) -> np.ndarray:
    """Between neighboring cells, and as far beyond the first and the last."""
    if len(middles) < 2:
        return np.array([middles[0] - 0.5, middles[0] + 0.5])
    between = (middles[1:] + middles[:-1]) / 2
    return np.concatenate([[2 * middles[0] - between[0]], between, [2 * middles[-1] - between[-1]]])


NAMES = {"surface": "A surface in three dimensions", "sankey": "A flow diagram"}
KINDS: dict[str, Callable[[Panel, Axes, Spec, int], None]] = {
    "scatter": _scatter,
    "bar": _bar,
    "heatmap": _heatmap,
    "contour": _contour,
}
