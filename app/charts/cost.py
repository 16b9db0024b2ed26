"""Accuracy against cost: the mean over clients by megabytes, gradient evaluations, seconds or simulated seconds."""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.bands import whiskers
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme
from app.charts.plot.point_labels import Point, name_points
from app.data.comparison import FEW_SEEDS, pareto_front, per_method, unit_of
from app.data.costs import AXIS_TITLES, Cost
from app.statistics.intervals import MIN_BLOCKS
from app.wording import count, names, number, percent_pm, points

UNITS: dict[Cost, str] = {
    "megabytes": "MB more",
    "gradient_evaluations": "more gradient evaluations",
    "seconds": "s more",
    "simulated_s": "more simulated seconds",
}
MAX_NAMED = 8  # labeled points at most
EDGE = 0.04  # of the x axis, beyond the first and the last whisker


def data(runs: pd.DataFrame, cost: Cost) -> pd.DataFrame:
    """[run, method, algorithm, split, seed, mean, lowest, <cost>] -> a row per method: its cost, whether on the front.

    A method is on the Pareto front if none is both at least as cheap and at least as accurate, and better in one; one
    of unknown cost, NaN, is not. ``unit`` is what ``seeds`` counts (``comparison.unit_of``).
    """
    rows = per_method(runs, ("mean", "lowest", cost)).rename(columns={cost: "cost"})
    rows["front"] = np.logical_and(pareto_front(rows["cost"], rows["mean"]), rows["cost"].notna())
    columns = ["method", "algorithm", "cost", "mean", "mean_pm", "lowest", "seeds", "front", "samples", "unit"]
    return rows.assign(unit=unit_of(runs))[columns].sort_values("cost", kind="stable").reset_index(drop=True)


def figure(df: pd.DataFrame, cost: Cost) -> go.Figure:
    """A point per method of known cost with its whisker over seeds; the steps of the Pareto front behind them."""
    look, fig, front, df = looks(df), go.Figure(), df[df["front"]], df.dropna(subset=["cost"])
    fig.add_scatter(
        x=front["cost"],
        y=100 * front["mean"],
        mode="lines",
        hoverinfo="skip",
        line={"shape": "hv", "color": theme().muted, "width": 1, "dash": "dot"},
    )
    own = [look[method] for method in df["method"]]
    fig.add_scatter(
        x=df["cost"],
        y=100 * df["mean"],
        mode="markers",
        error_y=whiskers(100 * df["mean_pm"], theme().ink),
        marker={"color": [style.color for style in own], "symbol": [style.symbol for style in own], "size": 12},
        text=df["method"],
        cliponaxis=False,
        customdata=[percent_pm(row.mean, row.mean_pm, samples=row.samples) for row in df.itertuples()],
        hovertemplate=f"%{{text}}<br>%{{customdata}} for %{{x:,.4g}} {AXIS_TITLES[cost]}<extra></extra>",
    )
    base_layout(fig, height=370)
    shown = named_methods(df, "front", "mean")
    points = [(shown.get(r.method, ""), r.cost, 100 * r.mean, look[r.method].color) for r in df.itertuples()]
    name_points(fig, [Point(*point) for point in points], from_zero=True)
    end = (float(df["cost"].max()) if len(df) else 0.0) or 1.0
    fig.update_xaxes(title_text=AXIS_TITLES[cost], range=[-EDGE * end, (1 + EDGE) * end])
    fig.update_yaxes(title_text="mean test accuracy, %")
    return fig.update_layout(showlegend=False)


def named_methods(df: pd.DataFrame, front: str, gain: str) -> dict[str, str]:
    """The methods to label: the front and then the best, as many as fit."""
    first = df.sort_values([front, gain], ascending=False, kind="stable")["method"][:MAX_NAMED]
    return {name: name for name in first}


def heading(df: pd.DataFrame, tied: Sequence[str], surpassed: Collection[str], cost: Cost) -> str:
    """``CGPFL K=4 gains 1.3 points over LocalTrain, the cheapest``.

    ``tied`` are the methods that may be the best, ``surpassed`` those that another one is clearly better than. A
    question if the cost of the best is unknown, or that of all others.
    """
    best = df.loc[df["mean"].idxmax()]
    if pd.isna(best["cost"]) or df["cost"].count() < 2:
        return "How fast, and at what cost?"
    cheapest = df.loc[df["cost"] == df["cost"].min()].sort_values("mean").iloc[-1]
    is_few = best["seeds"] < MIN_BLOCKS
    over = f", over {FEW_SEEDS[int(best['seeds'])].replace('seed', best['unit'])}" if is_few else ""
    if best["method"] == cheapest["method"]:
        is_clear = not is_few and len(tied) == 1
        most = "is the most accurate" if is_clear else "has the highest mean accuracy"
        return f"{best['method']} {most} at the lowest cost{over}"
    if not is_few and cheapest["method"] not in surpassed:
        return f"No method is clearly more accurate than {cheapest['method']}, the cheapest"
    gain, more = points(best["mean"] - cheapest["mean"], float(df["samples"].min())), best["cost"] - cheapest["cost"]
    price = f"{count(more) if more >= 1000 else number(more)} {UNITS[cost]}"
    return f"{best['method']} gains {gain} over {cheapest['method']}, the cheapest, for {price}{over}"


def finding(df: pd.DataFrame, cost: Cost) -> str:
    """The methods on the front: no other is better at the same or lower cost."""
    front, unknown = df[df["front"]], df[df["cost"].isna()]
    if front.empty:
        return f"No method has a known cost: {AXIS_TITLES[cost]}."
    rest = len(df) - len(front) - len(unknown)
    beaten = {0: "", 1: "; the other costs at least as much for no more accuracy"}
    others = beaten.get(rest, f"; the other {rest} cost at least as much for no more accuracy")
    left_out = (
        f". Cost unknown, as runs diverged or did not record it: {names(unknown['method'])}" if len(unknown) else ""
    )
    on_front = ", ".join(front["method"])
    return f"On the Pareto front of mean accuracy against {AXIS_TITLES[cost]}: {on_front}{others}{left_out}."
