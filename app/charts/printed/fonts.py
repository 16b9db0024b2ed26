"""Fonts that come with matplotlib, so that a figure is the same on every machine."""

import atexit
import logging
import tempfile
from functools import cache
from pathlib import Path

import matplotlib
from fontTools import subset
from fontTools.ttLib import TTFont
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from app.charts.printed.settings import Font

FAMILIES: dict[Font, tuple[str, ...]] = {
    "times": ("STIXGeneral", "DejaVu Sans"),
    "cm": ("Fedscape Computer Modern", "STIXGeneral", "DejaVu Sans"),
    "sans": ("DejaVu Sans",),
}
# TeX's encoding has other glyphs at other positions: `<` would be printed as an inverted exclamation mark.
SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 !#$%&()*+,-./:;=?@[]"
REPLACEMENT = "□"
logging.getLogger("fontTools.ttLib").setLevel(logging.ERROR)  # matplotlib warns that these fonts are old


@cache
def families(font: Font) -> list[str]:
    """Families to look for a glyph in, in this order."""
    if font == "cm":
        _add_computer_modern()
    return list(FAMILIES[font])


def printable(text: str, font: Font) -> str:
    """``text`` with a box for each character that no font has."""
    known = _characters(font)
    return "".join(letter if letter == "\n" or ord(letter) in known else REPLACEMENT for letter in text)


@cache
def _characters(font: Font) -> frozenset[int]:
    paths = (font_manager.findfont(family) for family in families(font))
    return frozenset(code for path in paths for code in FT2Font(path).get_charmap())


def _add_computer_modern() -> None:
    folder = tempfile.TemporaryDirectory(prefix="fedscape-fonts-")
    atexit.register(folder.cleanup)
    for name, weight in (("cmr10", 400), ("cmb10", 700)):
        target = Path(folder.name) / f"{name}.ttf"
        _trim(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf", target)
        entry = font_manager.FontEntry(
            str(target), name=FAMILIES["cm"][0], style="normal", variant="normal", weight=weight
        )
        font_manager.fontManager.ttflist.append(entry)


def _trim(source: Path, target: Path) -> None:
    with TTFont(source) as font:
        cutter = subset.Subsetter()
        cutter.populate(text=SAFE)
        cutter.subset(font)
        font.save(target)
