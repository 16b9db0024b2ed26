"""The lines and points that are labeled on the screen, each with a color, a dash and a symbol."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.charts.plot.annotations import SERIES
from app.charts.printed.looks import each, rgba
from app.charts.printed.mark_colors import mark_colors
from app.charts.printed.panel import Panel, Spec
from app.charts.printed.text import words


@dataclass
class Series:
    """A name in its ``color``. ``line`` describes its line, which is number ``trace`` of the panel's traces."""

    name: str
    color: str
    line: Spec | None = None
    trace: int | None = None
    symbol: str | None = None


def named(panel: Panel) -> list[Series]:
    """The named traces, from the highest name to the lowest."""
    notes = [note for note in panel.layout.get("annotations", ()) if note.get("name") == SERIES]
    return [_series(panel, note) for note in sorted(notes, key=lambda note: -_height(note))]


def tell_apart(series: Sequence[Series]) -> None:
    """Give each name on a sheet its own symbol, hollow if the symbol is already used: prints may have no colors."""
    known: dict[str, str | None] = {}
    taken: set[tuple[str, str]] = set()
    for one in series:
        if one.name not in known:
            known[one.name] = one.symbol
            if one.line is not None and one.symbol is not None:
                dash = str(one.line.get("dash", "solid"))
                if (dash, one.symbol) in taken and "-open" not in one.symbol:
                    known[one.name] = f"{one.symbol}-open"
                taken.add((dash, str(known[one.name])))
        one.symbol = known[one.name]


def _height(note: Spec) -> float:
    return float(note["ay"] if note.get("ayref", "pixel") != "pixel" else note["y"])


def _series(panel: Panel, note: Spec) -> Series:
    """The trace of that name, else the widest line and the marks in the color of the name."""
    name, color = words(note["text"]).text, str(note.get("font", {}).get("color"))
    own = [i for i, trace in enumerate(panel.traces) if _is_line(trace) and trace.get("name") == name]
    same = own or [i for i, t in enumerate(panel.traces) if _is_line(t) and t.get("line", {}).get("color") == color]
    main = max(same, key=lambda i: panel.traces[i]["line"].get("width", 2), default=None)
    line = panel.traces[main]["line"] if main is not None else _shape(panel, color)
    symbol = panel.traces[own[0]].get("marker", {}).get("symbol") if own else None
    if not isinstance(symbol, str):
        symbol = next((s for trace in panel.traces if (s := _symbol(panel, trace, color)) is not None), None)
    return Series(name, color, line, main, symbol)


def _is_line(trace: Spec) -> bool:
    """Whether something is drawn between its points."""
    has_line = "lines" in str(trace.get("mode", "")) and bool(trace.get("line", {}).get("width", 0))
    return has_line and len(trace.get("x", ())) > 1


def _shape(panel: Panel, color: str) -> Spec | None:
    shapes = (shape.get("line", {}) for shape in panel.layout.get("shapes", ()))
    return next((line for line in shapes if line.get("color") == color), None)


def _symbol(panel: Panel, trace: Spec, color: str) -> str | None:
    """The symbol of most marks in this color."""
    if trace.get("type", "scatter") != "scatter" or "markers" not in str(trace.get("mode", "")):
        return None
    n, target = len(trace.get("x", ())), rgba(color)
    symbols = each(trace.get("marker", {}).get("symbol"), n, "circle")
    colors = mark_colors(panel, trace, n)
    own = [str(s) for s, c in zip(symbols, colors, strict=True) if c[3] and np.allclose(c[:3], target[:3])]
    return Counter(own).most_common(1)[0][0] if own else None
