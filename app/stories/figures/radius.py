"""Mean and lowest 5 % against the sharpness radius, with bands over draws, a star at the best, and the run as dots."""

from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.bands import band
from app.components.moving_figure import RESULT, Moves
from app.stories.figures.legend import explain
from app.stories.sharpness_curve import RADII, SAMPLES, Example
from app.wording import percent, percent_pm

NAMED = 5  # which of the radii has the names of the curves, outside of their bands
LOOKS = {"mean": ("mean", "solid", "circle", 1), "lowest5": ("lowest 5 %", "dash", "square", -1)}


def data(example: Example, up_to: float = RADII[-1]) -> pd.DataFrame:
    """[metric, rho, shown, mean, std, draws, is_best]: on the clients that are shown, and over all draws."""
    rows = [
        (metric, rho, draws[0], draws.mean(), draws.std(ddof=1), len(draws), rho == example.best_rho)
        for metric in LOOKS
        for rho, draws in zip(RADII, getattr(example, metric), strict=True)
        if rho <= up_to
    ]
    return pd.DataFrame(rows, columns=["metric", "rho", "shown", "mean", "std", "draws", "is_best"])


def figure(df: pd.DataFrame, references: Mapping[str, float], *, height: int) -> go.Figure:
    """Both curves, and lowest 5 % of other runs as lines; ``moving`` adds the reader's runs.

    The best is marked only in whole curves.
    """
    fig, color = go.Figure(), palette.color(palette.style_of("fedsam"))
    is_whole = df["rho"].max() == RADII[-1]
    for metric, (words, dash, symbol, side) in LOOKS.items():
        curve = df[df["metric"] == metric]
        fig.add_trace(band(curve["rho"], 100 * curve["mean"], 100 * curve["std"], color))
        fig.add_scatter(
            x=curve["rho"],
            y=100 * curve["mean"],
            mode="lines+markers",
            line={"color": color, "width": 2.5, "dash": dash},
            marker={"size": 6, "symbol": symbol},
            hovertemplate=f"ρ = %{{x}}: {words} %{{y:.0f}} %, mean over the draws<extra></extra>",
        )
        named = curve.iloc[NAMED if is_whole else -1]
        outside = "top center" if side > 0 else "bottom center"
        fig.add_scatter(
            x=[named["rho"]],
            y=[100 * (named["mean"] + (side * named["std"] if is_whole else 0))],
            mode="text",
            text=[words if is_whole else f"  {words}"],
            textposition=outside if is_whole else "middle right",
            hoverinfo="skip",
            textfont_color=palette.theme().ink,
        )
    if is_whole:
        _add_star(fig, df, color)
    for words, level in references.items():
        _add_reference(fig, words, level)
    fig.update_traces(meta=RESULT)
    fig.add_traces(
        [
            live_traces.rings("your earlier run, lowest 5 %: %{y:.0f} %", "square"),
            live_traces.way(),
            live_traces.dots("this run: %{y:.0f} %", [symbol for _, _, symbol, _ in LOOKS.values()]),
        ]
    )
    palette.base_layout(fig, height=height)
    best = f"★ best lowest 5 %: ρ = {_best(df)['rho']:g}<br>" if is_whole else ""
    explain(fig, f"{best}lines: mean of {df['draws'].iloc[0]} draws")
    fig.update_layout(showlegend=False, margin={"t": 8, "r": 12})
    fig.update_xaxes(
        range=[-0.02, RADII[-1] + 0.02],
        tickvals=[0, 0.1, 0.2, 0.3, 0.4, 0.5],
        ticktext=["0<br>FedAvg", "0.1", "0.2", "0.3", "0.4", "0.5"],
        fixedrange=True,
        title_text="ρ, larger = flatter",
    )
    fig.update_yaxes(range=[-4, 105], title_text="accuracy, %", fixedrange=True)
    return fig


def moving(rho: float, score: tuple[float, float] | None, ends: Sequence[tuple[float, float]]) -> Moves:
    """What changes while a run with ``rho`` trains: (mean, lowest 5 %) as dots, and where earlier tails ended."""
    now = [100 * value for value in score] if score else []
    return {
        "earlier runs": {"x": [end for end, _ in ends], "y": [100 * lowest5 for _, lowest5 in ends]},
        "way": {"x": [rho] * len(now), "y": now},
        "your run": {"x": [rho] * len(now), "y": now},
    }


def _best(df: pd.DataFrame) -> pd.Series:
    return df[df["is_best"] & (df["metric"] == "lowest5")].iloc[0]


def _add_star(fig: go.Figure, df: pd.DataFrame, color: str) -> None:
    best = _best(df)
    fig.add_scatter(
        x=[best["rho"]],
        y=[100 * best["mean"]],
        mode="markers",
        marker={"symbol": "star", "size": 20, "color": color},
        hovertemplate=f"best lowest 5 %, mean over {best['draws']} draws: "
        f"{percent_pm(best['mean'], best['std'], samples=SAMPLES)} at ρ = {best['rho']:g}<extra></extra>",
    )


def _add_reference(fig: go.Figure, words: str, level: float) -> None:
    shade = palette.theme()
    fig.add_scatter(
        x=[-0.02, RADII[-1] + 0.02],
        y=[100 * level] * 2,
        mode="lines",
        line={"color": shade.ink, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )
    fig.add_scatter(
        x=[0],
        y=[100 * level],
        mode="text",
        text=[f"{words}: {percent(level, 0)}"],
        textposition="top right",
        textfont_color=shade.ink,
        hoverinfo="skip",
    )
