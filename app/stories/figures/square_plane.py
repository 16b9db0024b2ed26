"""The axes of a plane without units: a framed square, equally long in both directions."""

import plotly.graph_objects as go

from app.charts.plot import palette


def square_plane(fig: go.Figure, extent: float) -> go.Figure:
    """From ``-extent`` to ``extent``, which no reader can move; without ticks and legend."""
    fig.update_layout(showlegend=False, margin={"t": 8, "b": 8, "l": 8, "r": 8})
    fig.update_xaxes(range=[-extent, extent], showticklabels=False, ticks="", mirror=True, fixedrange=True)
    return fig.update_yaxes(
        range=[-extent, extent],
        showticklabels=False,
        ticks="",
        mirror=True,
        showgrid=False,
        showline=True,
        linecolor=palette.theme().line,
        scaleanchor="x",
        fixedrange=True,
    )
