"""Squared distance from the true model by lambda: both ends, the best and the adaptive lambda, and the reader's run."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.legend import explain
from app.stories.lambda_curves import Example

ALONE_X, TOGETHER_X = 2e-4, 5e1  # where a logarithmic axis has no place for 0 and infinity
HEIGHT = 470
MARKS = ("alone", "together", "best", "adaptive")
NAMED_APART, CLEAR = 1.4, 1.5  # times: how far the end of a named curve is from other ones, and from the chosen one
TICKS = {
    ALONE_X: "alone<br>λ = 0",
    1e-3: "0.001",
    1e-2: "0.01",
    1e-1: "0.1",
    1: "1",
    10: "10",
    TOGETHER_X: "together<br>λ → ∞",
}


def data(example: Example) -> pd.DataFrame:
    """[R, lam, x, error, mark]: a row per point of a curve; ``mark`` is alone, best, adaptive, together or empty."""
    rows = []
    for curve in example.curves:
        rows.append((curve.R, 0.0, curve.alone, "alone"))
        rows += [
            (curve.R, lam, error, "best" if lam == curve.best_lam else "")
            for lam, error in zip(curve.lambdas, curve.errors, strict=True)
        ]
        rows.append((curve.R, np.inf, curve.together, "together"))
        rows.append((curve.R, curve.adaptive_lam, curve.adaptive, "adaptive"))
    df = pd.DataFrame(rows, columns=["R", "lam", "error", "mark"])
    df.insert(2, "x", [place(lam) for lam in df["lam"]])
    return df


def place(lam: float | None) -> float:
    """Where a lambda lies on the axis; None is infinity."""
    if lam is None or np.isinf(lam):
        return TOGETHER_X
    return lam or ALONE_X


def figure(df: pd.DataFrame, R: float, marks: Sequence[str] = MARKS) -> go.Figure:
    """The curve of ``R`` in front of the pale ones of other spreads; ``moving`` adds the reader's runs.

    Unless all ``marks`` are shown, there are only these of ``R``, with its curve if the best is among them.
    """
    fig = go.Figure()
    df = df if len(marks) == len(MARKS) else df[df["R"] == R]
    ends = df[df["mark"] == "together"].set_index("R")["error"]
    named: list[float] = []
    for other, curve in df.groupby("R"):
        if other != R:
            is_clear = _is_apart(ends[other], ends[R], CLEAR)
            is_named = is_clear and all(_is_apart(ends[other], end, NAMED_APART) for end in named)
            if is_named:
                named.append(ends[other])
            _add_pale(fig, curve, is_named=is_named)
    _add_curve(fig, df[df["R"] == R], marks)
    fig.update_traces(meta=RESULT)
    ended, now = "your earlier run: error %{y:.2f}", "this run: error %{y:.2f}"
    fig.add_traces([live_traces.rings(ended), live_traces.way(), live_traces.dots(now)])
    palette.base_layout(fig, height=HEIGHT)
    explain(fig, f"{'curves' if 'best' in marks else 'marks'}: exact solutions")
    fig.update_layout(showlegend=False, margin={"t": 12, "r": 24})
    fig.update_xaxes(
        type="log",
        range=[-3.95, 1.95],
        tickvals=list(TICKS),
        ticktext=list(TICKS.values()),
        title_text="λ, larger = more global",
        fixedrange=True,
    )
    fig.update_yaxes(
        type="log",
        range=np.log10([0.24, 20]).tolist(),
        tickvals=[0.25, 0.5, 1, 2, 4, 8, 16],
        title_text="squared distance",
        fixedrange=True,
    )
    return fig


def moving(lam: float | None, errors: Sequence[float], ends: Sequence[tuple[float | None, float]]) -> Moves:
    """What changes while a run at ``lam`` trains: its dot, its way down, and where earlier runs ended."""
    x = place(lam)
    return {
        "earlier runs": {"x": [place(lam) for lam, _ in ends], "y": [error for _, error in ends]},
        "way": {"x": [x, x], "y": [max(errors), errors[-1]]},
        "your run": {"x": [x], "y": [errors[-1]]},
    }


def _is_apart(one: float, other: float, times: float) -> bool:
    return max(one / other, other / one) >= times


def _add_pale(fig: go.Figure, curve: pd.DataFrame, *, is_named: bool) -> None:
    shade = palette.theme()
    line = curve[curve["mark"] != "adaptive"].sort_values("x")
    fig.add_scatter(
        x=line["x"], y=line["error"], mode="lines", line={"color": shade.line, "width": 1.5}, hoverinfo="skip"
    )
    if is_named:
        end = line.iloc[-2]
        fig.add_scatter(
            x=[end["x"]],
            y=[end["error"]],
            mode="text",
            text=[f"R = {curve['R'].iloc[0]:g}"],
            textposition="top left",
            textfont_color=shade.muted,
            hoverinfo="skip",
        )


def _add_curve(fig: go.Figure, curve: pd.DataFrame, marks: Sequence[str]) -> None:
    """The chosen spread: solid between the ends, dotted toward them, with its marks."""
    color = palette.color(palette.style_of("fedprox_onestage"))
    if "best" in marks:
        _add_lines(fig, curve, color)
    _add_marks(fig, curve, color, marks)


def _add_lines(fig: go.Figure, curve: pd.DataFrame, color: str) -> None:
    inner = curve[curve["mark"].isin(["", "best"])].sort_values("x")
    whole = curve[curve["mark"] != "adaptive"].sort_values("x")
    fig.add_scatter(
        x=whole["x"], y=whole["error"], mode="lines", line={"color": color, "width": 2, "dash": "dot"}, hoverinfo="skip"
    )
    fig.add_scatter(
        x=inner["x"],
        y=inner["error"],
        mode="lines",
        line={"color": color, "width": 3},
        hovertemplate="λ = %{x:.3g}: error %{y:.2f}<extra></extra>",
    )


def _add_marks(fig: go.Figure, curve: pd.DataFrame, color: str, marks: Sequence[str]) -> None:
    shade = palette.theme()
    looks = {
        "alone": (palette.color(palette.style_of("local_train")), "square", 13, "top right"),
        "together": (palette.color(palette.style_of("fedavg")), "circle", 13, "bottom left"),
        "best": (color, "circle-open", 15, "bottom center"),
        "adaptive": (color, "star", 25, "top right"),
    }
    for mark in marks:
        mark_color, symbol, size, where = looks[mark]
        row = curve[curve["mark"] == mark].iloc[0]
        text, lam = f"{mark} {row['error']:.2f}", "∞" if np.isinf(row["lam"]) else f"{row['lam']:.3g}"
        fig.add_scatter(
            x=[row["x"]],
            y=[row["error"]],
            mode="markers+text",
            text=[text],
            textfont_color=shade.ink,
            textposition="top center" if mark == "adaptive" and row["lam"] > 1 else where,
            hovertemplate=f"{text}, λ = {lam}<extra></extra>",
            marker={"color": mark_color, "symbol": symbol, "size": size, "line": {"width": 2 if mark == "best" else 0}},
        )
