"""The data split: samples of each class by client, and the clients' sizes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.charts.plot.annotations import Note, annotate
from app.charts.plot.palette import base_layout, cluster_colors, theme, translucent
from app.data.thinning import MAX_MARKS, quantile_note, quantiles
from app.data.true_contexts import are_groups
from app.wording import plural

BUBBLES = 60  # clients; more are drawn as a heat map
COLORS = 10  # true contexts; more are not distinguished
SIZES, GAP, KEY_GAP = 0.27, 0.06, 0.12  # shares of the figure: the sizes, and the gap below, without and with a key
KEY_START, KEY_STEP = 0.25, 0.075  # of the contexts in the key, as shares of the width
DIAMETER, NARROW = 17, 330  # pixels: of the largest bubble, and of the plot beside the form of Set up


def data(partition: Mapping[str, Any]) -> pd.DataFrame:
    """``partition`` of a run -> a row per client: sizes, true context (a number or None), a column per class.

    Class columns are named ``class <name>``.
    """
    counts = np.asarray(partition["class_counts"], dtype=np.int64)
    contexts = partition.get("contexts")
    named = partition.get("class_names") or [str(c) for c in range(counts.shape[1])]
    table = pd.DataFrame(
        {
            "client": np.arange(len(counts)),
            "train": partition["train_sizes"],
            "val": partition["val_sizes"],
            "test": partition["test_sizes"],
            "context": [None] * len(counts) if contexts is None else list(contexts),
        }
    )
    classes = pd.DataFrame(counts, columns=[f"class {name}" for name in named])
    return pd.concat([table, classes], axis=1)


def figure(df: pd.DataFrame, *, height: int = 400) -> go.Figure:
    """Sizes above (training solid, the rest paler), client x class below. Of more than 2,000 clients it draws quantiles
    by size.
    """
    whole = len(df)
    if whole > MAX_MARKS:
        by_size = df[["train", "val", "test"]].sum(axis=1).to_numpy().argsort(kind="stable")
        df = df.iloc[by_size[quantiles(whole)]]
    gap = KEY_GAP if _has_key(df) else GAP
    fig = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[SIZES, 1 - SIZES], vertical_spacing=gap)
    _sizes(fig, df)
    classes = [c for c in df.columns if c.startswith("class ")]
    counts = df[classes].to_numpy(np.float32).T  # [C, N]
    if _has_key(df):
        annotate(fig, _key(_context_colors(df)))
    if len(df) <= BUBBLES:
        _bubbles(fig, df, counts)
    else:
        _heat_map(fig, df, counts)
    base_layout(fig, height=height)
    names = [c.removeprefix("class ") for c in classes]
    shown = np.arange(0, len(names), -(-len(names) // 25))
    fig.update_yaxes(
        title_text="class",
        tickvals=shown,
        ticktext=[names[i] for i in shown],
        autorange="reversed",
        showgrid=len(df) <= BUBBLES,
        row=2,
        col=1,
    )
    fig.update_yaxes(title_text="samples", nticks=4, rangemode="tozero", row=1, col=1)
    fig.update_xaxes(
        title_text=_axis_title(df) + quantile_note(whole, "size"), range=[-0.8, len(df) - 0.2], row=2, col=1
    )
    fig.update_xaxes(showline=False, ticks="", row=1, col=1)
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"}
    fig.update_layout(barmode="stack", bargap=0.25, showlegend=True, margin_t=30, legend=legend)
    return fig


def sentence(df: pd.DataFrame) -> str:
    """The finding, also for screen readers."""
    classes = [c for c in df.columns if c.startswith("class ")]
    held = (df[classes] > 0).sum(axis=1)
    sizes = df[["train", "val", "test"]].sum(axis=1)
    known = _known_contexts(df)
    contexts = f", in {plural(len(known), 'true context')}" if known else ""
    samples = plural(int(sizes.max()), "sample") if sizes.min() == sizes.max() else f"{_span(sizes)} samples"
    of = plural(len(classes), "class", "classes")
    return f"{plural(len(df), 'client')} with {samples} and {_span(held)} of {of} each{contexts}."


def _sizes(fig: go.Figure, df: pd.DataFrame) -> None:
    accent = theme().accent
    for part, opacity, pattern in (("train", 1.0, ""), ("val", 0.6, "/"), ("test", 0.3, "")):
        if df[part].any():
            bar = go.Bar(
                x=np.arange(len(df)),
                y=df[part],
                customdata=df["client"],
                name={"train": "training", "val": "validation", "test": "test"}[part],
                marker={
                    "color": translucent(accent, opacity),
                    "line": {"color": accent, "width": 1},  # the test bars alone are too faint
                    "pattern_shape": pattern,
                },
                hovertemplate="client %{customdata}: %{y:,} samples<extra>%{fullData.name}</extra>",
            )
            fig.add_trace(bar, row=1, col=1)


def _bubbles(fig: go.Figure, df: pd.DataFrame, counts: np.ndarray) -> None:
    """The area of a bubble is the number of samples; colors are true contexts, if known. Neighbors do not overlap."""
    y, x = np.nonzero(counts)
    values = counts[y, x]
    largest = values.max() if len(values) else 1.0
    context = df["context"].to_numpy()[x] if _known_contexts(df) else np.full(len(x), None)
    color = _context_colors(df)
    fig.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="markers",
            showlegend=False,
            marker={
                "size": values,
                "sizemode": "area",
                "sizeref": 2 * largest / min(DIAMETER, NARROW / len(df)) ** 2,
                "sizemin": 1.5,
                "color": [color.get(c, theme().accent) for c in context],
                "line_width": 0,
                "opacity": 0.9,
            },
            customdata=np.stack([values, np.where(pd.isna(context), "", " · context " + context.astype(str))], axis=1),
            hovertemplate="client %{x}, class %{y}: %{customdata[0]:,} samples%{customdata[1]}<extra></extra>",
        ),
        row=2,
        col=1,
    )


def _heat_map(fig: go.Figure, df: pd.DataFrame, counts: np.ndarray) -> None:
    shade = theme()
    bar = {"title": {"text": "samples", "font_size": 12}, "thickness": 8, "len": 0.6, "y": 0.3, "outlinewidth": 0}
    fig.add_trace(
        go.Heatmap(
            z=counts,
            customdata=np.broadcast_to(df["client"].to_numpy(), counts.shape),
            colorscale=[[0, "rgba(0,0,0,0)"], [1e-6, translucent(shade.accent, 0.15)], [1, shade.accent]],
            zmin=0,
            colorbar=bar,
            hovertemplate="client %{customdata}, class %{y}: %{z:,} samples<extra></extra>",
        ),
        row=2,
        col=1,
    )


def _context_colors(df: pd.DataFrame) -> dict[int, str]:
    known = _shown_contexts(df)
    return dict(zip(known, cluster_colors(len(known)), strict=True))


def _shown_contexts(df: pd.DataFrame) -> list[int]:
    known = _known_contexts(df)
    return known if len(known) <= COLORS else []


def _known_contexts(df: pd.DataFrame) -> list[int]:
    known = df["context"].dropna()
    return sorted(known.unique()) if are_groups(known.to_numpy()) else []


def _axis_title(df: pd.DataFrame) -> str:
    """``client``, and what the colors of the bubbles mean."""
    return "client, colored by true context" if _has_key(df) else "client"


def _has_key(df: pd.DataFrame) -> bool:
    return bool(_shown_contexts(df)) and len(df) <= BUBBLES


def _key(colors: Mapping[int, str]) -> list[Note]:
    """``true context ● 0 ● 1``, above the bubbles."""
    above = {
        "xref": "paper",
        "yref": "paper",
        "y": (1 - SIZES) * (1 - KEY_GAP) + KEY_GAP / 2,
        "yanchor": "middle",
        "showarrow": False,
    }
    texts = [("true context", theme().muted), *((f"● {context}", color) for context, color in colors.items())]
    places = [0.0, *(KEY_START + KEY_STEP * i for i in range(len(colors)))]
    return [
        {"x": x, "xanchor": "left", "text": text, "font": {"color": color, "size": 12}, **above}
        for x, (text, color) in zip(places, texts, strict=True)
    ]


def _span(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
