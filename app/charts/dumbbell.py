"""Low, mean and top: what a method gives its worst clients, its average one and its best, over seeds."""

from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go

from app.comparison import per_method, per_run
from app.method_looks import Look, looks
from app.palette import base_layout, ground, translucent
from app.spreads import whiskers
from app.wording import percent_pm, plural

MOST_ROOMY = 14  # methods that have room for a number above their mean
BELOW = 0.3  # where the ring of the other model hangs, in rows
SortKey = Literal["mean", "lowest", "top", "spread"]


def data(clients: pd.DataFrame, share: float, by: SortKey = "mean", other: pd.DataFrame | None = None) -> pd.DataFrame:
    """[run, method, algorithm, seed, client, accuracy, test_size] -> a row a method, the best by ``by`` first.

    ``other`` holds the same clients under the methods' other model; its mean becomes the column ``other``.
    ``spread`` is the distance of the two tails, least first.
    """
    rows = per_method(per_run(clients, share))
    rows["spread"] = rows["top"] - rows["lowest"]
    rows["other"] = float("nan")
    if other is not None and len(other):
        means = per_method(per_run(other, share)).set_index("method")["mean"]
        rows["other"] = rows["method"].map(means)
    columns = ["method", "algorithm", "lowest", "mean", "top", "spread", "lowest_pm", "mean_pm", "top_pm", "other",
               "seeds", "clients", "tail"]  # fmt: skip
    return rows.sort_values(by, ascending=by == "spread", kind="stable")[columns].reset_index(drop=True)


def figure(df: pd.DataFrame, share: float = 0.05, other_name: str = "") -> go.Figure:
    """One line a method: a triangle at each tail, the mean with its whisker over seeds, a ring for the other model.

    Many methods stand closer, and their means are printed at the right.
    """
    look, fig, is_dense = looks(df), go.Figure(), len(df) > MOST_ROOMY
    for at, row in enumerate(df.itertuples()):
        fig.add_traces(_row(at, row, look[row.method], _hover(row, share), is_dense))
    if df["other"].notna().any():
        fig.add_trace(_rings(df, other_name))
    base_layout(fig, height=120 + (25 if is_dense else 44) * max(len(df), 2))
    least, most = 100 * df[["lowest", "other"]].min().min(), 100 * df[["top", "other"]].max().max()
    margin = 0.17 * (most - least) if len(df) else 1
    fig.update_xaxes(title_text="test accuracy, %", range=[least - margin, most + margin])
    fig.update_yaxes(
        tickvals=list(range(len(df))), ticktext=list(df["method"]), range=[len(df) - 0.4, -0.7], ticks="",
        gridcolor=translucent(ground().line, 0.6),
    )  # fmt: skip
    if is_dense:
        for at, row in enumerate(df.itertuples()):
            fig.add_annotation(
                xref="paper", x=1, xanchor="left", xshift=24, y=at, showarrow=False,
                text=f"<b>{100 * row.mean:.1f}</b>", font={"color": look[row.method].color},
            )  # fmt: skip
        fig.update_layout(margin_r=72)
    return fig.update_layout(showlegend=False, uniformtext={"mode": "show", "minsize": 9})


def _row(at: int, row: Any, style: Look, texts: list[str], is_dense: bool) -> list[go.Scatter]:
    low, mean, top = 100 * row.lowest, 100 * row.mean, 100 * row.top
    tails = go.Scatter(
        x=[low, top], y=[at] * 2, mode="lines+markers+text", hoverinfo="text", hovertext=texts[::2],
        line={"width": 3, "color": style.color}, cliponaxis=False, marker_line_width=0, customdata=[row.method] * 2,
        marker={"symbol": ["triangle-left", "triangle-right"], "size": 9 if is_dense else 12, "color": style.color},
        text=[f"{low:.1f}", f"{top:.1f}"], textposition=["middle left", "middle right"],
    )  # fmt: skip
    middle = go.Scatter(
        x=[mean], y=[at], mode="markers" if is_dense else "markers+text", text=f"<b>{mean:.1f}</b>",
        textposition="top center", customdata=[row.method], hovertext=texts[1],
        error_x=whiskers([100 * row.mean_pm], style.color),
        marker={"symbol": style.symbol, "size": 10 if is_dense else 13, "color": style.color},
        marker_line={"width": 1, "color": ground().paper}, hoverinfo="text", cliponaxis=False,
    )  # fmt: skip
    return [tails, middle]


def _rings(df: pd.DataFrame, name: str) -> go.Scatter:
    """The means of the other models, one trace for all: each costs the browser as much as a line of its own."""
    own = df[df["other"].notna()]
    return go.Scatter(
        x=100 * own["other"], y=own.index + BELOW, mode="markers", hoverinfo="text",
        hovertext=[f"{row.method}: {name} model {100 * row.other:.2f} %" for row in own.itertuples()],
        marker={"symbol": "circle-open", "size": 9, "color": ground().ink, "line": {"width": 1.5}},
    )  # fmt: skip


def _hover(row: Any, share: float) -> list[str]:
    tail = f"{100 * share:g} %"
    parts = ((f"lowest {tail}", "lowest", row.tail), ("mean", "mean", row.clients), (f"top {tail}", "top", row.tail))
    texts = []
    for title, name, count in parts:
        value = percent_pm(getattr(row, name), getattr(row, f"{name}_pm"))
        texts.append(f"{row.method}: {title} {value}<br>{count} of {row.clients} clients, {plural(row.seeds, 'seed')}")
    return texts
