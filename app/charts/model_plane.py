"""The loss over the plane through three models, with true distances and the models marked."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, theme, translucent
from app.charts.surface import ON_COLOR, color_axis, contours, known
from app.wording import number

TITLES = {"global": "global", "personalized": "personalized", "alone": "trained alone", "initial": "initial model"}
SYMBOLS = {"global": "circle", "personalized": "diamond", "alone": "square", "initial": "x"}


def data(x: np.ndarray, y: np.ndarray, loss: np.ndarray) -> pd.DataFrame:
    """[x, y, loss], a row per point of the plane; NaN where the loss is not finite."""
    across, up = np.meshgrid(x, y)
    return pd.DataFrame({"x": across.ravel(), "y": up.ravel(), "loss": known(loss).ravel()})


def models(names: Sequence[str], places: np.ndarray, losses: Sequence[float | None]) -> pd.DataFrame:
    """[model, x, y, loss]: the positions and losses of the models."""
    loss = [np.nan if value is None else value for value in losses]
    return pd.DataFrame({"model": list(names), "x": places[:, 0], "y": places[:, 1], "loss": loss})


def finding(marks: pd.DataFrame) -> str:
    """The losses of the models, and the distances between them."""
    losses = ", ".join(f"{TITLES[m.model]} {number(m.loss)}" for m in marks.itertuples())
    pairs = [
        f"{np.hypot(a.x - b.x, a.y - b.y):.3g} between {TITLES[a.model]} and {TITLES[b.model]}"
        for a, b in combinations(marks.itertuples(), 2)
    ]
    return f"Loss: {losses}. Parameter distance: {', '.join(pairs)}."


def figure(df: pd.DataFrame, marks: pd.DataFrame, every: np.ndarray) -> go.Figure:
    """Contours with the three models, named, equal scale on both axes; ``every`` are the losses on one color scale."""
    grid = df.pivot(index="y", columns="x", values="loss")
    x, y = grid.columns.to_numpy(np.float32), grid.index.to_numpy(np.float32)
    fig = go.Figure(contours(x, y, grid.to_numpy(float), every))
    middle = marks["y"].mean()
    for mark in marks.itertuples():
        title, above = TITLES[mark.model], mark.y >= middle
        fig.add_scatter(
            x=[mark.x],
            y=[mark.y],
            mode="markers+text",
            text=[f"{title} {number(mark.loss)}"],
            textfont=ON_COLOR,
            textposition="top center" if above else "bottom center",
            cliponaxis=False,
            marker={
                "symbol": SYMBOLS[mark.model],
                "size": 13,
                "color": "#FFFFFF",
                "line": {"color": "#1B2428", "width": 1.5},
            },
            hovertemplate=f"{title}: loss {mark.loss:.4g}<extra></extra>",
        )
    base_layout(fig, height=430)
    fig.update_layout(coloraxis=color_axis(every), showlegend=False, plot_bgcolor=translucent(theme().muted, 0.35))
    fig.update_xaxes(title_text="parameter distance", range=[x[0], x[-1]], constrain="domain")
    fig.update_yaxes(range=[y[0], y[-1]], scaleanchor="x", constrain="domain", showgrid=False)
    return fig
