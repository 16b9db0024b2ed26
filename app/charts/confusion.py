"""Confusion matrix of a client's model: a row per true class, a column per predicted class."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.annotations import annotate
from app.charts.plot.palette import base_layout, theme, translucent
from app.wording import count, plural

MAX_CLASSES, MAX_PRINTED = 40, 16


def data(matrix: np.ndarray, class_names: Sequence[str] = ()) -> pd.DataFrame:
    """[C, C] counts, true x predicted -> [true, predicted, samples, share]; ``share`` is that of the row.

    Rows are classes with samples, columns those and all predicted ones; of many classes the most frequent.
    """
    titles = [str(name) for name in class_names] or [str(c) for c in range(len(matrix))]
    total = matrix.sum(axis=1)
    occurs = total + matrix.sum(axis=0)
    columns = np.sort(np.argsort(-occurs, kind="stable")[: min(MAX_CLASSES, int((occurs > 0).sum()))])
    rows = columns[total[columns] > 0]
    part = matrix[np.ix_(rows, columns)]
    return pd.DataFrame(
        {
            "true": np.repeat([titles[c] for c in rows], len(columns)),
            "predicted": np.tile([titles[c] for c in columns], len(rows)),
            "samples": part.ravel(),
            "share": (part / total[rows][:, None]).ravel(),
        }
    )


def finding(matrix: np.ndarray, class_names: Sequence[str] = ()) -> str:
    """``190 of 210 correct; most often Shirt is predicted as T-shirt: 12 of 60.``"""
    total, right = int(matrix.sum()), int(np.trace(matrix))
    if not total:
        return "No test samples."
    correct = f"{count(right)} of {count(total)} correct"
    wrong = matrix - np.diag(np.diag(matrix))
    if not wrong.any():
        return f"{correct}."
    true, taken = np.unravel_index(int(wrong.argmax()), wrong.shape)
    titles = list(class_names) or [f"class {c}" for c in range(len(matrix))]
    often = f"{count(int(wrong[true, taken]))} of {count(int(matrix[true].sum()))}"
    return f"{correct}; most often {titles[true]} is predicted as {titles[taken]}: {often}."


def figure(df: pd.DataFrame) -> go.Figure:
    """The darker, the larger the share of the row; numbers are samples, frames correct predictions."""
    true, predicted = (df[column].drop_duplicates().tolist() for column in ("true", "predicted"))
    counts, shares = (df[column].to_numpy().reshape(len(true), len(predicted)) for column in ("samples", "share"))
    shade = theme()
    fig = go.Figure(
        go.Heatmap(
            z=100 * shares.astype(np.float32),
            x=predicted,
            y=true,
            zmin=0,
            zmax=100,
            xgap=1,
            ygap=1,
            colorscale=[
                [0, translucent(shade.accent, 0.0)],
                [0.001, translucent(shade.accent, 0.14)],
                [1, shade.accent],
            ],
            customdata=[[plural(int(n), "sample") for n in row] for row in counts],
            hovertemplate="true %{y}, predicted %{x}<br>%{customdata}, %{z:.1f} %<extra></extra>",
            colorbar={
                "title": {"text": "% of row", "side": "top"},
                "thickness": 10,
                "outlinewidth": 0,
                "tickvals": [0, 50, 100],
            },
        )
    )
    for row, name in enumerate(true):
        column = predicted.index(name)
        fig.add_shape(
            type="rect",
            x0=column - 0.5,
            x1=column + 0.5,
            y0=row - 0.5,
            y1=row + 0.5,
            line={"color": shade.muted, "width": 1.5},
        )
    if len(predicted) <= MAX_PRINTED:
        _print_numbers(fig, df)
    base_layout(fig, height=int(np.clip(150 + 32 * len(true), 280, 640)))
    fig.update_xaxes(title_text="predicted", type="category", showgrid=False)
    fig.update_yaxes(title_text="true", type="category", autorange="reversed", showgrid=False)
    return fig.update_layout(showlegend=False)


def _print_numbers(fig: go.Figure, df: pd.DataFrame) -> None:
    shade = theme()
    annotate(
        fig,
        (
            {
                "x": cell.predicted,
                "y": cell.true,
                "text": f"{cell.samples:,}",
                "showarrow": False,
                "font": {"size": 11, "color": shade.paper if cell.share > 0.55 else shade.ink},
            }
            for cell in df[df["samples"] > 0].itertuples()
        ),
    )
