"""Accuracy on each client's rotated images: a column per client, from upright to most rotated, a sample image below."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.segments import joined
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.legend import THIS

PAGES_PX = 42  # the height of the pictures
PIXELS = 8  # a picture is as wide as high
GAP, WIDE_GAP = 2, 9  # pixels between two pictures, in a column and on a slide
END_PX = (5, 1.5)  # the thickness of a bar, of the first method and of the second


def data(accuracies: Mapping[str, np.ndarray], angles: np.ndarray) -> pd.DataFrame:
    """Accuracies [N] of each method -> [method, client, angle, accuracy], a row per method and client."""
    rows = [
        (method, client, angle, accuracy)
        for method, values in accuracies.items()
        for client, (angle, accuracy) in enumerate(zip(angles, values, strict=True))
    ]
    return pd.DataFrame(rows, columns=["method", "client", "angle", "accuracy"])


def figure(
    ends: Mapping[str, np.ndarray],
    angles: np.ndarray,
    pictures: np.ndarray,
    *,
    height: int,
    seeds: int,
    with_mean: bool = False,
    thirds: Sequence[float] = (),
) -> go.Figure:
    """Gray bars are each client's final result, mean over ``seeds``: ``ends`` [N]; ``moving`` adds the current ones.

    ``pictures`` [n, 8, 8] are of every N/n-th client; ``thirds`` are mean accuracies of each third, if shown.
    """
    fig, shade, methods = go.Figure(), palette.theme(), list(ends)
    for accuracies, width in zip(ends.values(), END_PX, strict=False):
        fig.add_scatter(
            x=list(range(len(angles))),
            y=100 * accuracies,
            mode="markers",
            meta=RESULT,
            hoverinfo="skip",
            cliponaxis=False,
            marker={"symbol": "line-ew", "size": 14, "line": {"color": shade.muted, "width": width}},
            opacity=0.5,
        )
    fig.add_scatter(x=[], y=[], mode="lines", name="pairs", line={"color": shade.muted, "width": 1.5}, hoverinfo="skip")
    fig.add_scatter(
        x=[], y=[], mode="lines", name="mean", line={"color": shade.ink, "width": 1.5, "dash": "dash"}, hoverinfo="skip"
    )
    fig.add_scatter(
        x=[],
        y=[],
        text=[],
        mode="text",
        name="mean label",
        textposition="middle right",
        hoverinfo="skip",
        cliponaxis=False,
    )
    for method, marker in zip(methods, _markers(), strict=False):
        fig.add_scatter(
            x=[],
            y=[],
            customdata=angles,
            mode="markers",
            name=method,
            marker=marker,
            cliponaxis=False,
            hovertemplate=f"{method}, client %{{x}}, rotated by %{{customdata:.3g}}°: %{{y:.0f}} %<extra></extra>",
        )
    fig.add_scatter(
        x=[-0.4],
        y=[7],
        mode="text",
        text=[_key(methods, seeds)],
        meta=RESULT,
        textposition="middle right",
        textfont_color=shade.muted,
        hoverinfo="skip",
    )
    _add_thirds(fig, thirds, len(angles))
    _add_pages(fig, pictures, len(angles))
    palette.base_layout(fig, height=height)
    pages, every = PAGES_PX / (height - 90), max(1, len(angles) // 5)
    fig.update_layout(
        showlegend=False,
        margin={"t": 12, "r": 90 if with_mean else 16},
        yaxis={
            "domain": [pages + 0.02, 1],
            "range": [0, 103],
            "tickvals": list(range(0, 101, 20)),
            "fixedrange": True,
            "title_text": "accuracy on own images, %",
        },
        yaxis2={"domain": [0, pages], "range": [PIXELS, -1], "visible": False, "fixedrange": True},
    )
    fig.update_xaxes(
        range=[-0.7, len(angles) - 0.3],
        tickvals=list(range(0, len(angles), every)),
        tickangle=0,
        fixedrange=True,
        ticktext=[f"{angle:.3g}°" for angle in angles[::every]],
        title_text="client's rotation",
        anchor="y2",
    )
    return fig


def moving(df: pd.DataFrame, methods: Sequence[str], *, with_mean: bool = False) -> Moves:
    """The accuracies as they are now: dots, and either the mean of the first method or lines between two methods."""
    values = {method: 100 * df[df["method"] == method]["accuracy"].to_numpy() for method in methods}
    moves = {method: {"x": list(range(len(y))), "y": y.tolist()} for method, y in values.items()}
    first = values[methods[0]]
    if with_mean and len(first):
        mean, end = float(first.mean()), len(first) - 0.3
        moves["mean"] = {"x": [-0.6, end], "y": [mean, mean]}
        moves["mean label"] = {"x": [end], "y": [mean], "text": [f"mean {mean:.0f}"]}
    if len(methods) > 1:
        clients, (one, other) = range(len(first)), (moves[method]["y"] for method in methods)
        moves["pairs"] = {"x": joined(clients, clients), "y": joined(one, other)}
    return moves


def _key(methods: Sequence[str], seeds: int) -> str:
    thick = f"; thick: {methods[0].lower()}" if len(methods) > 1 else ""
    return f"gray: final mean of {seeds} seeds{thick}{THIS}"


def _markers() -> list[dict[str, object]]:
    """The first method is the one the reader trains; the second differs in shape and is hollow."""
    shade = palette.theme()
    return [
        {"symbol": "circle", "size": 12, "color": live_traces.color(), "line": {"width": 1, "color": shade.paper}},
        {"symbol": "square-open", "size": 11, "color": shade.ink, "line": {"width": 2}},
    ]


def _add_thirds(fig: go.Figure, means: Sequence[float], clients: int) -> None:
    """A line between two thirds, and the mean of each at the top."""
    shade, parts = palette.theme(), np.array_split(np.arange(clients), 3)
    for part, mean in zip(parts, means, strict=False):
        if part[0]:
            line = {"color": shade.muted, "width": 1, "dash": "dot"}
            fig.add_scatter(x=[part[0] - 0.5] * 2, y=[12, 103], mode="lines", line=line, hoverinfo="skip")
        fig.add_scatter(
            x=[part.mean()],
            y=[97],
            mode="text",
            text=[f"third: {100 * mean:.0f} %"],
            meta=RESULT,
            textfont_color=shade.muted,
            hoverinfo="skip",
        )


def _add_pages(fig: go.Figure, pictures: np.ndarray, clients: int) -> None:
    """The pictures in a row, each below its client."""
    shade, count = palette.theme(), len(pictures)
    gap = WIDE_GAP if palette.is_presenting() else GAP
    framed = np.pad(pictures.astype(float), ((0, 0), (0, 0), (0, gap)), constant_values=np.nan)
    pixel = clients / count / (PIXELS + gap)
    fig.add_heatmap(
        z=np.hstack(list(framed)),
        x0=-(PIXELS - 1) / 2 * pixel,
        dx=pixel,
        y0=0,
        dy=1,
        yaxis="y2",
        showscale=False,
        colorscale=[[0, shade.second], [1, shade.ink]],
        zmin=0,
        zmax=15,
        hoverinfo="skip",
        name="pages",
    )
