"""Accuracy against cost: the mean over clients by megabytes, gradient evaluations, seconds or simulated seconds."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.bands import whiskers
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, ground
from app.charts.plot.point_labels import Point, name_points
from app.data.comparison import FEW_SEEDS, pareto_front, per_method
from app.data.costs import AXIS_TITLES, Cost
from app.wording import count, number, percent_pm, points
from engine.core.statistics import MIN_BLOCKS

UNITS: dict[Cost, str] = {
    "megabytes": "MB more",
    "gradient_evaluations": "more gradient evaluations",
    "seconds": "s more",
    "simulated_s": "more simulated seconds",
}
MAX_NAMED = 8  # labeled points at most


def data(runs: pd.DataFrame, cost: Cost) -> pd.DataFrame:
    """[run, method, algorithm, split, seed, mean, lowest, <cost>] -> a row per method: its cost, whether on the front.

    A method is on the Pareto front if none is both at least as cheap and at least as accurate, and better in one.
    """
    rows = per_method(runs, ("mean", "lowest", cost)).rename(columns={cost: "cost"})
    rows["front"] = pareto_front(rows["cost"], rows["mean"])
    columns = ["method", "algorithm", "cost", "mean", "mean_pm", "lowest", "seeds", "front", "samples"]
    return rows[columns].sort_values("cost", kind="stable").reset_index(drop=True)


def figure(df: pd.DataFrame, cost: Cost) -> go.Figure:
    """A point per method with its whisker over seeds; the steps of the Pareto front behind them."""
    look, fig, front = looks(df), go.Figure(), df[df["front"]]
    fig.add_scatter(
        x=front["cost"],
        y=100 * front["mean"],
        mode="lines",
        hoverinfo="skip",
        line={"shape": "hv", "color": ground().muted, "width": 1, "dash": "dot"},
    )
    own = [look[method] for method in df["method"]]
    fig.add_scatter(
        x=df["cost"],
        y=100 * df["mean"],
        mode="markers",
        error_y=whiskers(100 * df["mean_pm"], ground().ink),
        marker={"color": [style.color for style in own], "symbol": [style.symbol for style in own], "size": 12},
        text=df["method"],
        cliponaxis=False,
        customdata=[percent_pm(row.mean, row.mean_pm, samples=row.samples) for row in df.itertuples()],
        hovertemplate=f"%{{text}}<br>%{{customdata}} for %{{x:,.4g}} {AXIS_TITLES[cost]}<extra></extra>",
    )
    base_layout(fig, height=370)
    names = named_methods(df, "front", "mean")
    points = [(names.get(r.method, ""), r.cost, 100 * r.mean, look[r.method].color) for r in df.itertuples()]
    name_points(fig, [Point(*point) for point in points], from_zero=True)
    fig.update_xaxes(title_text=AXIS_TITLES[cost], rangemode="tozero")
    fig.update_yaxes(title_text="mean test accuracy, %")
    return fig.update_layout(showlegend=False)


def named_methods(df: pd.DataFrame, front: str, gain: str) -> dict[str, str]:
    """The methods to label: the front and then the best, as many as fit."""
    first = df.sort_values([front, gain], ascending=False, kind="stable")["method"][:MAX_NAMED]
    return {name: name for name in first}


def heading(df: pd.DataFrame, tied: Sequence[str], cost: Cost) -> str:
    """``CGPFL K=4 gains 1.3 points over LocalTrain, the cheapest``; ``tied`` are the methods that may be the best."""
    best = df.loc[df["mean"].idxmax()]
    cheapest = df.loc[df["cost"] == df["cost"].min()].sort_values("mean").iloc[-1]
    is_few = best["seeds"] < MIN_BLOCKS
    over = f", over {FEW_SEEDS[int(best['seeds'])]}" if is_few else ""
    if best["method"] == cheapest["method"]:
        is_clear = not is_few and len(tied) == 1
        most = "is the most accurate" if is_clear else "has the highest mean accuracy"
        return f"{best['method']} {most} at the lowest cost{over}"
    if not is_few and cheapest["method"] in tied:
        return f"No method is clearly more accurate than {cheapest['method']}, the cheapest"
    gain, more = points(best["mean"] - cheapest["mean"], float(df["samples"].min())), best["cost"] - cheapest["cost"]
    price = f"{count(more) if more >= 1000 else number(more)} {UNITS[cost]}"
    return f"{best['method']} gains {gain} over {cheapest['method']}, the cheapest, for {price}{over}"


def finding(df: pd.DataFrame, cost: Cost) -> str:
    """The methods on the front: no other is better at the same or lower cost."""
    front = df[df["front"]]
    rest = len(df) - len(front)
    beaten = {0: "", 1: "; the other costs at least as much for less accuracy"}
    others = beaten.get(rest, f"; the other {rest} cost at least as much for less accuracy")
    return f"On the Pareto front of mean accuracy against {AXIS_TITLES[cost]}: {', '.join(front['method'])}{others}."
