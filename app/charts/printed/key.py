"""The legend of a printed figure: the names that the screen shows next to the marks, with their lines and markers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from app.charts.printed.looks import DASHES, SCALES, each, marker, rgba
from app.charts.printed.mark_colors import mark_colors
from app.charts.printed.panel import Panel, Spec


class Entry(NamedTuple):
    """A name and what it names."""

    name: str
    handle: Any


def entries(panels: Sequence[Panel]) -> list[Entry]:
    """Each name once, in the order of the panels."""
    found: dict[str, Entry] = {}
    for panel in panels:
        labeled = [Entry(panel.label(s.name), _line(panel, s.color, s.line, s.symbol)) for s in panel.series]
        for entry in [*labeled, *_in_legend(panel)]:
            found.setdefault(entry.name, entry)
    return list(found.values())


def _in_legend(panel: Panel) -> list[Entry]:
    """The entries of the legend on the screen."""
    if panel.layout.get("showlegend") is False:
        return []
    found = []
    for trace in panel.traces:
        if trace.get("showlegend") is False or not trace.get("name"):
            continue
        name, given = panel.label(trace["name"]), trace.get("marker", {})
        if trace.get("type") == "bar":
            color, pattern = each(given.get("color"), 1, "#1f77b4")[0], given.get("pattern", {}).get("shape")
            found.append(Entry(name, Patch(facecolor=rgba(color), hatch=pattern and str(pattern) * 4, edgecolor="w")))
            continue
        mode, n = str(trace.get("mode", "lines")), len(trace.get("x", ()))
        line = trace.get("line", {}) if "lines" in mode else None
        symbol = each(given.get("symbol"), max(n, 1), "circle")[0] if "markers" in mode else None
        colors = mark_colors(panel, trace, max(n, 1)) if "markers" in mode else [rgba(line and line.get("color"))]
        found.append(Entry(name, _line(panel, colors[0], line, symbol)))
    return found


def _line(panel: Panel, color: Any, line: Spec | None, symbol: str | None) -> Line2D:
    shape, is_hollow = marker(symbol) if symbol else ("None", False)
    own = rgba(color) if isinstance(color, str) else color
    return Line2D(
        [],
        [],
        color=rgba(line["color"]) if line and line.get("color") else own,
        linewidth=(line.get("width", 2) if line else 0) * panel.px,
        linestyle=DASHES.get(line.get("dash", "solid"), "-") if line else "none",
        marker=shape,
        markersize=9 * panel.px * SCALES.get(shape, 1.0),
        markerfacecolor="white" if is_hollow else own,
        markeredgecolor=own,
        markeredgewidth=1.4 * panel.px if is_hollow else 0,
    )
