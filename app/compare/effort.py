"""The panel on effort: rounds or megabytes against gradient evaluations, until a target is reached."""

from typing import cast

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import communication
from app.compare.view import View
from app.components import page
from app.data import costs, queries
from app.data.comparison import with_methods
from app.state import url_state
from app.wording import number, plain
from engine.core.vocabulary import COSTS

SPENT = {"rounds": "Rounds", "megabytes": "Megabytes"}
GOALS = {"accuracy": "Mean accuracy", "error": "Distance from the true model"}
MOST_TARGETS = 25


@url_state.fragment
def effort(view: View) -> None:
    with_truth = len(view.means("total_error")) > 0
    goal = url_state.value("goal", GOALS, "accuracy") if with_truth else "accuracy"
    series = _series(view, goal)
    best = reached_by_all_seeds(series, goal)
    titles = targets(best, goal)
    if len(titles) < 2:
        return
    page.section("More rounds, or more work in each?")
    with st.container(horizontal=True, vertical_alignment="bottom", key="effort_controls"):
        if with_truth:
            url_state.switch("Goal", GOALS, "goal", "accuracy")
        spent = cast(communication.Spent, url_state.switch("Counted in", SPENT, "count", "rounds"))
        chosen = url_state.slide("Target", titles, "target", default_target(best, list(titles), goal))
    words = f"{'a mean accuracy of' if goal == 'accuracy' else 'an error of'} {titles[chosen]}"
    until = communication.reached(series, float(chosen), falls=goal == "error")
    spent_then = costs.spent(queries.scalar_totals(until, COSTS))
    points = communication.data(view.with_options(), until, spent_then)
    finding = communication.finding(points, spent, words)
    if points.empty:
        st.info(plain(finding))
        return
    page.finding_chart(
        communication.figure(points, spent, titles[chosen]),
        points,
        finding,
        key="effort",
        name="communication-computation",
        title="Communication against computation",
        also="Lines join settings that differ only in local work per round. "
        f"{communication.missed([m.name for m in view.methods], points)}".strip(),
    )


def reached_by_all_seeds(series: pd.DataFrame, goal: str) -> pd.Series:
    """[run, method, value] -> method: the best value that each of its seeds reaches in some round."""
    best, worst = ("min", "max") if goal == "error" else ("max", "min")
    return series.groupby(["method", "run"])["value"].agg(best).groupby("method").agg(worst)


def targets(best: pd.Series, goal: str) -> dict[str, str]:
    """Targets, hardest last, between what every method reaches and what only the best does."""
    low, high = float(best.min()), float(best.max())
    if best.empty or not high > low:
        return {}
    if goal == "error":
        values = np.geomspace(high, max(low, 1e-6), MOST_TARGETS)
        return {f"{value:.3g}": number(float(f"{value:.3g}")) for value in values}
    step = max(1, round(100 * (high - low) / MOST_TARGETS))
    percents = np.arange(np.ceil(100 * low - 1e-6), np.floor(100 * high + 1e-6) + 1, step).astype(int)
    return {f"{p / 100:g}": f"{p} %" for p in percents}


def default_target(best: pd.Series, values: list[str], goal: str) -> str:
    """The hardest target that half of the methods reach."""
    middle = float(best.median())
    within = [v for v in values if (float(v) >= middle if goal == "error" else float(v) <= middle)]
    return within[-1] if within else values[0]


def _series(view: View, goal: str) -> pd.DataFrame:
    """[run, method, round, value] of the target's measure."""
    if goal == "error":
        errors = queries.mean_series(list(view.runs.values()), [f"{view.model}.total_error"])
        return with_methods(errors, view.methods).dropna(subset=["value"])
    known = view.series().dropna(subset=["value"])
    return known[known["name"] == f"{view.model}.mean"]
