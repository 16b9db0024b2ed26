"""The spread over seeds or draws: the band around a line, the whiskers of points."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import translucent

Values = np.ndarray | pd.Series | Sequence[float]
OPACITY = 0.16


def band(x: Values, mean: Values, spread: Values, color: str) -> go.Scatter:
    """A pale band from ``mean - spread`` to ``mean + spread``, with zero width where the spread is unknown."""
    at, middle, apart = (np.asarray(values, np.float32) for values in (x, mean, np.nan_to_num(spread)))
    return go.Scatter(
        x=np.concatenate([at, at[::-1]]),
        y=np.concatenate([middle + apart, (middle - apart)[::-1]]),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=translucent(color, OPACITY),
        hoverinfo="skip",
    )


def whiskers(spread: Values, color: str) -> dict[str, object] | None:
    """The ``error_x`` or ``error_y`` of points; None where no spread is known."""
    known = np.asarray(spread, float)
    if not np.isfinite(known).any():
        return None
    return {"type": "data", "array": np.nan_to_num(known), "color": color, "thickness": 1.4, "width": 5}
