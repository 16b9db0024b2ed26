"""Colors, dashes and symbols of Plotly in matplotlib's terms."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.colors
from matplotlib import colors

from app.charts.plot import palette

Rgba = tuple[float, float, float, float]
TRANSPARENT: Rgba = (0.0, 0.0, 0.0, 0.0)
DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (3.2, 1.8)),
    "dot": (0, (1, 1.3)),
    "dashdot": (0, (3.2, 1.3, 1, 1.3)),
    "longdash": (0, (6, 1.8)),
    "longdashdot": (0, (6, 1.5, 1, 1.5)),
}
SYMBOLS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "triangle-left": "<",
    "triangle-right": ">",
    "cross": "P",
    "x": "X",
    "pentagon": "p",
    "hexagon": "h",
    "star": "*",
}
SCALES = {"D": 0.8, "s": 0.9, "*": 1.15}  # scales a marker to the size of Plotly's
_FUNCTION = re.compile(r"rgba?\(([^)]*)\)")


def rgba(color: object, opacity: float = 1.0) -> Rgba:
    """A CSS color as RGBA; the background of the screen becomes white."""
    text = str(color)
    if text.upper() == palette.LIGHT.paper:
        text = "#FFFFFF"
    if found := _FUNCTION.fullmatch(text.strip()):
        parts = [float(part) for part in found[1].split(",")]
        red, green, blue, alpha = [*(part / 255 for part in parts[:3]), *(parts[3:] or [1.0])]
        if (round(255 * red), round(255 * green), round(255 * blue)) == palette.rgb(palette.LIGHT.paper):
            red, green, blue = 1.0, 1.0, 1.0
    else:
        red, green, blue, alpha = colors.to_rgba(text)
    return red, green, blue, alpha * opacity


def marker(symbol: object) -> tuple[str, bool]:
    """The marker, and whether it is hollow."""
    name = str(symbol or "circle")
    return SYMBOLS.get(name.removesuffix("-open").removesuffix("-dot"), "o"), "-open" in name


def color_map(scale: object) -> colors.Colormap:
    """A color scale of Plotly, by its name or as (position, color)."""
    stops = plotly.colors.get_colorscale(scale) if isinstance(scale, str) else scale
    if not isinstance(stops, Sequence):
        stops = plotly.colors.get_colorscale("Cividis")
    known = [(float(at), rgba(color)) for at, color in stops]
    return colors.LinearSegmentedColormap.from_list("scale", known, N=512, bad=TRANSPARENT)


def each(value: Any, n: int, default: Any) -> list[Any]:
    """One value for each of ``n`` marks."""
    if value is None:
        return [default] * n
    if isinstance(value, str) or np.isscalar(value):
        return [value] * n
    return [*value][:n]


def in_light(value: Any, light_of: Mapping[str, str]) -> Any:
    """A figure with the colors of the dark theme in those of the light one."""
    if isinstance(value, dict):
        return {name: in_light(own, light_of) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [in_light(own, light_of) for own in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return [in_light(own, light_of) for own in value.tolist()]
    return _light(value, light_of) if isinstance(value, str) else value


def _light(text: str, light_of: Mapping[str, str]) -> str:
    if text.upper() in light_of:
        return light_of[text.upper()]
    if (found := _FUNCTION.fullmatch(text)) and len(parts := found[1].split(",")) == 4:
        code = "#" + "".join(f"{int(part):02X}" for part in parts[:3])
        if code in light_of:
            return palette.translucent(light_of[code], float(parts[3]))
    return text
