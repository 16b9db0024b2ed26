"""Ticks of a logarithmic axis that say their whole number, not only its first digit."""

import numpy as np
import plotly.graph_objects as go

from app.wording import count

COARSE, FINE = (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)
FEWEST = 3


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... from ``low`` to ``high``, closer where there would be fewer than three."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for mantissas in (COARSE, FINE):
        found = [float(f"{m}e{d}") for d in decades for m in mantissas if low <= float(f"{m}e{d}") <= high]
        if len(found) >= FEWEST:
            break
    return found


def say(axis: go.layout.XAxis | go.layout.YAxis, low: float, high: float) -> None:
    """Makes an axis logarithmic from ``low`` to ``high``, with a little room at both ends."""
    room = 0.06 * max(np.log10(high / low), 0.1)
    values = ticks(low, high)
    axis.update(
        type="log", range=[np.log10(low) - room, np.log10(high) + room], tickvals=values,
        ticktext=[count(value) if value >= 1000 else f"{value:g}" for value in values],
    )  # fmt: skip
