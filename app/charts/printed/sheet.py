"""Figures of the screen on one sheet, as SVG or PDF: the only entry to this package.

    from app.charts.printed.sheet import Settings, save

    save([figure, other], "figure.pdf", Settings(width=6.75))

Import this module where a figure is printed, not above: it loads matplotlib, which takes a second.
"""

import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib
import plotly.graph_objects as go
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from app.charts.plot import palette
from app.charts.printed import fonts, key, looks, notes, panel, series, traces
from app.charts.printed.panel import Panel, Unprintable
from app.charts.printed.settings import MAX_PANELS, Settings
from app.charts.printed.text import words

__all__ = ["FORMATS", "Settings", "Unprintable", "draw", "problem", "render", "save"]

Format = Literal["svg", "pdf"]
FORMATS: dict[str, str] = {"pdf": "application/pdf", "svg": "image/svg+xml"}
LOWEST, HIGHEST = 0.58, 0.8  # the height of a panel, as a share of its width
LABEL_SHARE, LETTER = 0.4, 0.48  # of the width of a panel, for labels; a letter's width, as a share of its size
ENOUGH = 2.8  # inches of a wide panel
SCREEN_WIDTH = 560  # pixels of a chart on the screen
MAX_ROWS = 16  # above which a panel becomes higher
POINTS = 72  # of an inch
MIN_PLOT = 0.12  # inches of a plot
NO_ROOM = "The texts leave no room for the marks: choose a larger figure or a smaller font."
_drawing = threading.RLock()  # matplotlib's settings are global to the process


def save(figures: Sequence[go.Figure], path: str | Path, settings: Settings | None = None) -> None:
    """Writes ``figures`` as panels of one SVG or PDF file; the ending of ``path`` says which."""
    file = Path(path)
    ending = file.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise ValueError(f"{file.name} must end in {' or '.join(f'.{name}' for name in FORMATS)}")
    file.write_bytes(render(figures, settings or Settings(), "svg" if ending == "svg" else "pdf"))


def render(figures: Sequence[go.Figure], settings: Settings, kind: Format) -> bytes:
    """The file. Raises ``Unprintable`` with the reason if a figure cannot be drawn."""
    with _styled(settings):
        sheet = draw(figures, settings)
        canvas: Any = FigureCanvasSVG(sheet) if kind == "svg" else FigureCanvasPdf(sheet)
        found = io.BytesIO()
        no_date = {"Date": None} if kind == "svg" else {"CreationDate": None}
        canvas.print_figure(found, format=kind, dpi=traces.DPI, metadata={"Creator": "Fedscape", **no_date})
    return found.getvalue()


def problem(figure: go.Figure) -> str | None:
    """Why a figure cannot be printed; None if it can."""
    try:
        traces.check(Panel.of(figure, 1.0, str, 1))
    except Unprintable as reason:
        return str(reason)
    return None


def draw(figures: Sequence[go.Figure], settings: Settings) -> Figure:
    """The sheet with a panel for each of ``figures``, lettered if there are several."""
    if not 1 <= len(figures) <= MAX_PANELS:
        raise Unprintable(f"A sheet has 1 to {MAX_PANELS} panels, not {len(figures)}.")
    with _styled(settings):
        return _draw(figures, settings)


def _draw(figures: Sequence[go.Figure], settings: Settings) -> Figure:
    px = settings.size / panel.SCREEN_PX

    def print_text(text: object) -> str:
        return fonts.printable(words(text).text, settings.font)

    columns = settings.in_a_row(len(figures))
    letters = int(LABEL_SHARE * settings.width / columns * POINTS / (settings.size * LETTER))
    panels = [Panel.of(_in_light(figure), px, print_text, max(8, letters)) for figure in figures]
    for one in panels:
        traces.check(one)
    rows = -(-len(panels) // columns)
    for one in panels:
        one.series = series.named(one)
    everything = [named for one in panels for named in one.series]
    before = {one.name: one.symbol for one in everything}
    series.tell_apart(everything)
    hollow = {(str(before[one.name]), looks.rgba(one.color)) for one in everything if one.symbol != before[one.name]}
    for one in panels:
        one.hollow = hollow
    entries = key.entries(panels) if settings.legend == "below" else []
    height = settings.height or _height(panels, settings, columns, rows)
    layout = ConstrainedLayoutEngine(w_pad=2 / POINTS, h_pad=2 / POINTS, wspace=0.03, hspace=0.03)
    sheet = Figure((settings.width, height), layout=layout)
    grid = sheet.add_gridspec(rows, columns)
    for i, one in enumerate(panels):
        panel.make_axes(sheet, grid[i // columns, i % columns], one)
        traces.draw(one)
        panel.finish_axes(one)
        notes.draw_shapes(one)
        _letter(one, i, len(panels), settings)
    if entries:
        _legend(sheet, entries, settings)
    _lay_out(sheet, layout)
    for one in panels:
        panel.wrap_titles(one)
        notes.draw_annotations(one, names_too=settings.legend == "beside")
    _lay_out(sheet, layout)
    for one in panels:
        notes.make_room(one)
        panel.thin_labels(one)
    _lay_out(sheet, layout)
    sheet.set_layout_engine("none")
    return sheet


def _lay_out(sheet: Figure, layout: ConstrainedLayoutEngine) -> None:
    """Gives texts their room and the plots the rest. If nothing is left, matplotlib warns and this raises."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied", UserWarning)
        try:
            layout.execute(sheet)
        except UserWarning:
            raise Unprintable(NO_ROOM) from None
    for axes in sheet.axes:
        box = axes.get_window_extent()
        if axes.get_label() != traces.COLOR_BAR and min(box.width, box.height) < MIN_PLOT * sheet.dpi:
            raise Unprintable(NO_ROOM)


def _letter(one: Panel, i: int, count: int, settings: Settings) -> None:
    """``(a)`` and the title of a panel, at its upper left."""
    title = one.print_text(settings.titles[i]) if i < len(settings.titles) else ""
    letter = f"({chr(ord('a') + i)})" if count > 1 else ""
    text = " ".join(filter(None, [letter, title]))
    if text:
        one.first.set_title(text, loc="left", fontsize=settings.size, fontweight="bold", color=panel.INK)


def _legend(sheet: Figure, entries: Sequence[key.Entry], settings: Settings) -> None:
    """Below the panels, in as few rows as have room."""
    for rows in range(1, len(entries) + 1):
        legend = sheet.legend(
            [entry.handle for entry in entries],
            [entry.name for entry in entries],
            loc="outside lower center",
            ncols=-(-len(entries) // rows),
            frameon=False,
            fontsize=settings.size,
            handlelength=2.4,
            columnspacing=1.2,
            handletextpad=0.5,
            borderaxespad=0.2,
            borderpad=0.1,
        )
        if legend.get_window_extent().width <= settings.width * sheet.dpi or rows == len(entries):
            return
        legend.remove()


def _height(panels: Sequence[Panel], settings: Settings, columns: int, rows: int) -> float:
    """Inches: each row is as high as on the screen for its width, within limits, and has room for its lines of text."""
    wide = settings.width / columns
    total = 0.0
    for row in range(rows):
        own = panels[row * columns : (row + 1) * columns]
        share = max(one.layout.get("height") or 400 for one in own) / SCREEN_WIDTH
        least = max(map(_lines_of_text, own)) * settings.size / POINTS
        total += max(min(wide * min(HIGHEST, max(LOWEST, share)), ENOUGH), least)
    return round(total, 2)


def _lines_of_text(one: Panel) -> float:
    """The number of lines of text, one above another, in a chart with a row for each method."""
    counts = [len(one.axis(y).get("tickvals", ())) for _, y in one.pairs()]
    has_numbers = any("text" in str(trace.get("mode")) for trace in one.traces)
    return 6 + (2.5 if has_numbers else 1.2) * min(max(counts), MAX_ROWS)


def _in_light(figure: go.Figure) -> go.Figure:
    """The figure in the colors of the light theme; as it is if it was drawn so."""
    light_of = {dark.upper(): light for light, dark in palette.pairs().items()}
    plain = {
        "data": [trace.to_plotly_json() for trace in figure.data],
        "layout": figure.layout.to_plotly_json(),
    }
    ink = str(plain["layout"].get("font", {}).get("color", "")).upper()
    if ink != palette.DARK.ink:
        return figure
    return go.Figure(looks.in_light(plain, light_of))


@contextmanager
def _styled(settings: Settings) -> Iterator[None]:
    style: Any = {
        "font.family": fonts.families(settings.font),
        "font.size": settings.size,
        "text.parse_math": False,  # names are text, even with $ signs
        "text.usetex": False,
        "axes.unicode_minus": True,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "fedscape",
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "hatch.linewidth": 0.4,
    }
    with _drawing, matplotlib.rc_context(style):
        yield
