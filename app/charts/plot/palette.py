"""The look of every figure: the color, dash and symbol of each method, and the frame around the data.

A method keeps its dash and symbol on every page and in every export, and its color unless another method of the same
comparison has a similar one (``method_styles``). Colors are the Okabe-Ito hues, adjusted until each reads as text on
its background, at 4.5:1; dash and symbol say the same without color.
"""

import colorsys
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.core.registry import ALGORITHMS

SANS = '"Source Sans", "Source Sans Pro", "Segoe UI", Helvetica, Arial, sans-serif'
SERIF = '"Source Serif", "Source Serif Pro", Georgia, "Times New Roman", serif'
MONO = '"Source Code Pro", "SFMono-Regular", Menlo, Consolas, monospace'


@dataclass(frozen=True)
class Theme:
    """The colors of a theme other than those of methods."""

    paper: str
    second: str
    ink: str
    muted: str
    line: str
    accent: str


LIGHT = Theme("#FBFAF7", "#F1EFE8", "#1B2428", "#5C676C", "#DAD6CA", "#0F4C5C")
DARK = Theme("#10171A", "#182226", "#E6ECEC", "#93A1A5", "#2C3A3F", "#4FB3BF")


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn in all figures."""

    light: str
    dark: str
    dash: str
    symbol: str


HUES = {  # in the light and in the dark theme
    "blue": ("#0072B2", "#4BA3DC"),
    "vermilion": ("#C24C06", "#F0803C"),
    "green": ("#00805D", "#2DBE93"),
    "purple": ("#9432BE", "#C25EEA"),
    "sky": ("#2276AE", "#7CC8F2"),
    "amber": ("#9A6700", "#E8B23A"),
    "teal": ("#0B7A84", "#4FC7D1"),
    "violet": ("#6A51A3", "#A998E0"),
    "rust": ("#8C3B2E", "#D97F6F"),
    "olive": ("#66711B", "#B5C255"),
}
GREYS = {
    "grey": ("#505659", "#A3ADB1"),
    "pale grey": ("#6C7376", "#79858A"),
    "dark grey": ("#2C3337", "#DCE3E6"),
}
SHADES = 4  # of each hue: itself, and three mixtures with the text color

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "pentagon", "hexagon")
_GROUP_SYMBOLS = (*_SYMBOLS, "star", "triangle-down")
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
D65 = np.array([0.95047, 1.0, 1.08883])
# Machado, Oliveira, Fernandes. A Physiologically-based Model for Simulation of Color Vision Deficiency. 2009.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
CLUSTER_HUES = ("blue", "amber", "green", "purple", "vermilion", "sky", "violet", "olive", "teal", "rust")
_on_paper = ContextVar("on_paper", default=False)


def style_of(algorithm: str) -> MethodStyle:
    """The style that a method was registered with; others get one derived from their name."""
    style = ALGORITHMS.get(algorithm).style if algorithm in ALGORITHMS else None
    if style is not None:
        light, dark = (HUES | GREYS)[style.hue]
        return MethodStyle(light, dark, style.dash, style.symbol)
    number = int.from_bytes(hashlib.sha256(algorithm.encode()).digest()[:4], "big")
    light, dark = list(HUES.values())[number % len(HUES)]
    rest = number // len(HUES)
    return MethodStyle(light, dark, _DASHES[rest % len(_DASHES)], _SYMBOLS[rest // len(_DASHES) % len(_SYMBOLS)])


@contextmanager
def on_paper() -> Iterator[None]:
    """Use the light theme and the normal font size, for figures that are written to a file."""
    token = _on_paper.set(True)
    try:
        yield
    finally:
        _on_paper.reset(token)


def is_dark() -> bool:
    """Whether the reader uses the dark theme."""
    return not _on_paper.get() and st.context.theme.type == "dark"


def theme() -> Theme:
    return DARK if is_dark() else LIGHT


def color(style: MethodStyle) -> str:
    return style.dark if is_dark() else style.light


class Tone(NamedTuple):
    """One color in both themes."""

    light: str
    dark: str


def tones(style: MethodStyle) -> tuple[Tone, ...]:
    """The style's own color, then its shades toward the text color, all readable on the background."""
    return _tones(style.light, style.dark)


@cache
def all_tones() -> tuple[Tone, ...]:
    """Every color that a method may have: the hues, their first shades, ... and then the grays in the same way."""
    return tuple(
        tone
        for family in (HUES, GREYS)
        for shade in zip(*(_tones(*both) for both in family.values()), strict=True)
        for tone in shade
    )


def pairs() -> dict[str, str]:
    """Light color -> dark: the colors of the theme and those of methods."""
    return dict(zip(vars(LIGHT).values(), vars(DARK).values(), strict=True)) | dict(all_tones())


@cache
def _tones(light: str, dark: str) -> tuple[Tone, ...]:
    both = zip(_shades(light, SHADES, False), _shades(dark, SHADES, True), strict=True)
    return tuple(Tone(*tone) for tone in both)


@cache
def apart(one: Tone, other: Tone) -> float:
    """The distance of two colors in CIELAB, the least over normal vision and deuteranopia and both grounds."""
    return min(
        float(np.linalg.norm(_lab(a, is_simulated) - _lab(b, is_simulated)))
        for a, b in zip(one, other, strict=True)
        for is_simulated in (False, True)
    )


@cache
def _lab(hex_color: str, as_deuteranope: bool) -> np.ndarray:
    """CIELAB under D65."""
    linear = _linear(hex_color)
    seen = np.clip(DEUTERANOPIA @ linear, 0, 1) if as_deuteranope else linear
    relative = TO_XYZ @ seen / D65
    x, y, z = np.where(relative > (6 / 29) ** 3, np.cbrt(relative), relative / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _linear(hex_color: str) -> np.ndarray:
    """Red, green and blue as amounts of light."""
    parts = np.array(rgb(hex_color)) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _shades(base: str, n: int, on_dark: bool) -> list[str]:
    hue, lightness, saturation = colorsys.rgb_to_hls(*(v / 255 for v in rgb(base)))
    end = min(0.92, lightness + 0.28) if on_dark else max(0.12, lightness - 0.24)
    steps = [lightness + (end - lightness) * i / (n - 1) for i in range(n)]
    return ["#" + "".join(f"{round(v * 255):02X}" for v in colorsys.hls_to_rgb(hue, s, saturation)) for s in steps]


def cluster_colors(n: int) -> list[str]:
    """Colors of contexts; beyond ten they repeat, and numbers distinguish them."""
    which = 1 if is_dark() else 0
    return [HUES[CLUSTER_HUES[i % len(CLUSTER_HUES)]][which] for i in range(n)]


def group_dash(i: int) -> str:
    """Beside the i-th of ``cluster_colors``; beyond five they repeat."""
    return _DASHES[i % len(_DASHES)]


def group_symbol(i: int) -> str:
    """Beside the i-th of ``cluster_colors``; beyond ten they repeat."""
    return _GROUP_SYMBOLS[i % len(_GROUP_SYMBOLS)]


def rgb(hex_color: str) -> tuple[int, int, int]:
    value = hex_color.lstrip("#")
    return int(value[0:2], 16), int(value[2:4], 16), int(value[4:6], 16)


def translucent(hex_color: str, opacity: float) -> str:
    """The color with an opacity, as ``rgba(...)``, for bands and areas."""
    red, green, blue = rgb(hex_color)
    return f"rgba({red},{green},{blue},{opacity:g})"


def contrast(one: str, other: str) -> float:
    """The WCAG contrast of two colors, from 1 to 21."""
    first, second = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def base_layout(fig: go.Figure, *, height: int | None = None) -> go.Figure:
    """Style a figure as in a journal: no background, horizontal hairlines, a serif title; larger type in Presentation.

    The layout is set as a whole: updating its parts one by one takes Plotly fifteen times as long.
    """
    there = fig.layout.to_plotly_json()
    base = _layout(1.3 if is_presenting() else 1.0, bool(there.get("title", {}).get("text")))
    base["height"] = round(height * (1.15 if is_presenting() else 1.0)) if height else None
    for letter, shown in (("x", {"showgrid": False, "showline": True}), ("y", {"showgrid": True, "showline": False})):
        names = {f"{letter}axis", *(name for name in there if name.startswith(f"{letter}axis"))}
        base |= dict.fromkeys(names, base[f"{letter}axis"] | shown)
    fig.layout = _over(there, base)
    return fig


def _layout(scale: float, has_title: bool) -> dict[str, Any]:
    shade = theme()
    axis = {
        "gridcolor": shade.line,
        "linecolor": shade.line,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": shade.line,
        "tickfont": {"size": 12 * scale, "color": shade.muted},
        "automargin": True,
        "ticklabeloverflow": "allow",  # otherwise Plotly measures every label to find out whether it fits
        "title": {"font": {"size": 13 * scale, "color": shade.muted}, "standoff": 8},
    }
    return {
        "template": "none",
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": SANS, "size": 13 * scale, "color": shade.ink},
        "title": {"font": {"family": SERIF, "size": 17 * scale, "color": shade.ink}, "x": 0, "xref": "container"},
        "margin": {"l": 8, "r": 16, "t": 40 if has_title else 16, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": shade.second,
            "bordercolor": shade.line,
            "font": {"family": SANS, "size": 13 * scale, "color": shade.ink},
        },
        "legend": {"bgcolor": "rgba(0,0,0,0)", "font": {"size": 12 * scale, "color": shade.ink}},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": shade.muted, "activecolor": shade.accent},
        "xaxis": axis,
        "yaxis": axis,
    }


def _over(there: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``there`` with ``base`` merged in, recursively."""
    merged = dict(there)
    for name, value in base.items():
        old = merged.get(name)
        merged[name] = _over(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return merged


def is_presenting() -> bool:
    """Larger type and fewer controls, for a lecture room."""
    return not _on_paper.get() and bool(st.session_state.get("presenting", False))


def _luminance(hex_color: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ _linear(hex_color))
