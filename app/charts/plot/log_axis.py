"""Logarithmic axes whose ticks show the whole number, not only its first digit."""

import numpy as np
import plotly.graph_objects as go

from app.wording import count

COARSE, FINE = (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)
MIN_TICKS = 3
ROUNDING = 1e-9


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... from ``low`` to ``high``, closer where there would be fewer than three.

    If the ends are close to one another, ticks are evenly spaced, as on a linear axis.
    """
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for mantissas in (COARSE, FINE):
        found = [float(f"{m}e{d}") for d in decades for m in mantissas if low <= float(f"{m}e{d}") <= high]
        if len(found) >= MIN_TICKS:
            return found
    return _even(low, high) if high > low else [low]


def _even(low: float, high: float) -> list[float]:
    """Multiples of the largest step 1, 2 or 5 times a power of ten that gives three ticks."""
    first = int(np.floor(np.log10(high - low)))
    for decade in (first, first - 1, first - 2):
        for mantissa in (5, 2, 1):
            step = float(f"{mantissa}e{decade}")
            places = range(int(np.ceil(low / step - ROUNDING)), int(np.floor(high / step + ROUNDING)) + 1)
            if len(places) >= MIN_TICKS:
                return [float(f"{place * step:.12g}") for place in places]
    return [low, high]


def apply(axis: go.layout.XAxis | go.layout.YAxis, low: float, high: float) -> None:
    """Makes an axis logarithmic from ``low`` to ``high``, with a little room at both ends."""
    room = 0.06 * max(np.log10(high / low), 0.1)
    values = ticks(low, high)
    axis.update(
        type="log",
        range=[np.log10(low) - room, np.log10(high) + room],
        tickvals=values,
        ticktext=[count(value) if value >= 1000 else f"{value:.4g}" for value in values],
    )
