"""What is live and what is shipped, in a line inside a figure."""

import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.annotations import annotate
from app.components.moving_figure import RESULT


def explain(fig: go.Figure, shipped: str, *, at_top: bool = False) -> None:
    """``shipped`` says what the lines are; the reader's runs are explained the same way everywhere."""
    side = "top" if at_top else "bottom"
    note = {
        "name": RESULT,
        "xref": "paper",
        "yref": "paper",
        "x": 0.01,
        "y": 1 if at_top else 0.01,
        "xanchor": "left",
        "yanchor": side,
        "showarrow": False,
        "text": f"{shipped} · ● this run · ○ earlier runs",
        "font": {"color": palette.ground().muted},
    }
    annotate(fig, [note])
