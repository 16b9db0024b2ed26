"""The colors of the marks of a trace: given for each, or numbers on a scale."""

from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from app.charts.printed.looks import color_map, each, rgba
from app.charts.printed.panel import Panel, Spec


def mark_colors(panel: Panel, trace: Spec, n: int) -> list[Any]:
    """The color of every mark, with its opacity."""
    given = trace.get("marker", {})
    chosen = given.get("color", trace.get("line", {}).get("color", "#1f77b4"))
    opacities = [float(o) * float(trace.get("opacity", 1.0)) for o in each(given.get("opacity"), n, 1.0)]
    values = each(chosen, n, "#1f77b4")
    if values and not any(isinstance(value, str) for value in values):
        numbers = np.asarray(values, float)
        colors = scalar_colors(scale_of(panel, given), numbers)
        mapped = colors.cmap(colors.norm(numbers))
        return [(*rgba_of[:3], opacity) for rgba_of, opacity in zip(mapped, opacities, strict=True)]
    return [rgba(value, opacity) for value, opacity in zip(values, opacities, strict=True)]


def scalar_colors(scale: Spec, numbers: np.ndarray) -> ScalarMappable:
    """The colors of numbers on a scale, whose ends are those of the numbers unless they are given."""
    low, high = scale.get("cmin"), scale.get("cmax")
    norm = Normalize(np.nanmin(numbers) if low is None else low, np.nanmax(numbers) if high is None else high)
    return ScalarMappable(norm, color_map(scale.get("colorscale", "Cividis")))


def scale_of(panel: Panel, given: Spec) -> Spec:
    """The object that describes the colors: the trace, or a color axis of the layout."""
    name = given.get("coloraxis")
    return panel.layout.get(name, {}) if name else given
