"""How often a heuristic chose each number of clusters: a row for each kind of clients, the true number shaded."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components.moving_figure import RESULT
from app.stories.context_curve import NUM_CONTEXTS, Guesses

HEIGHT = 300
MIN_SIZE, MAX_SIZE = 16, 34  # of a mark, for one draw and for all


def data(kinds: Sequence[Guesses]) -> pd.DataFrame:
    """[samples, noise, K, draws, of]: in how many ``of`` all draws the heuristic chose K, a row per kind and K."""
    rows = [
        (kind.training_samples, kind.noise, K, draws, len(kind.K_hats))
        for kind in kinds
        for K, draws in sorted(Counter(kind.K_hats).items())
    ]
    return pd.DataFrame(rows, columns=["samples", "noise", "K", "draws", "of"])


def figure(df: pd.DataFrame) -> go.Figure:
    """The number of draws in a mark that is as large."""
    fig, shade = go.Figure(), palette.theme()
    kinds = df[["samples", "noise"]].drop_duplicates().itertuples(index=False)
    rows = {(kind.samples, kind.noise): -at for at, kind in enumerate(kinds)}
    size = MIN_SIZE + (MAX_SIZE - MIN_SIZE) * df["draws"] / df["of"]
    fig.add_scatter(
        x=df["K"],
        y=[rows[kind] for kind in zip(df["samples"], df["noise"], strict=True)],
        mode="markers+text",
        text=df["draws"].astype(str),
        textfont_color=shade.paper,
        marker={"size": size, "color": palette.color(palette.style_of("cgpfl"))},
        hovertemplate="K = %{x} in %{text} draws<extra></extra>",
        meta=RESULT,
    )
    palette.base_layout(fig, height=HEIGHT)
    fig.add_vrect(
        x0=NUM_CONTEXTS - 0.4, x1=NUM_CONTEXTS + 0.4, fillcolor=shade.line, opacity=0.5, line_width=0, layer="below"
    )
    fig.update_layout(showlegend=False, margin={"t": 12, "r": 12})
    fig.update_xaxes(
        range=[0.3, max(df["K"].max(), NUM_CONTEXTS) + 0.7],
        dtick=1,
        showgrid=False,
        fixedrange=True,
        title_text=f"number of clusters chosen (shaded: the true {NUM_CONTEXTS})",
    )
    fig.update_yaxes(
        range=[0.5 - len(rows), 0.5],
        tickvals=list(rows.values()),
        ticktext=[f"{samples} samples,<br>noise {noise:g}" for samples, noise in rows],
        showgrid=False,
        fixedrange=True,
        ticks="",
    )
    return fig
