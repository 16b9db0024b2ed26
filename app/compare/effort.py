"""The panel on effort: rounds or another cost against gradient evaluations, until a target is reached."""

from dataclasses import dataclass
from math import floor, log10
from typing import cast

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import communication
from app.charts.plot import figure_cache
from app.compare import tables
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.data.column_heads import Head, Heads
from app.data.comparison import with_methods
from app.data.costs import AXIS_CHOICES, offered
from app.state import url_state
from app.state.choice import Choice, Choices
from app.wording import number, plain

HEADING = "More rounds, or more work in each?"
GOALS = {"accuracy": "Mean accuracy", "error": "Distance from the true model"}
MAX_TARGETS = 25
RUNS: Heads = {"seeds": Head("Runs"), "seeds_run": Head("All runs")}  # where a split may have several


@dataclass(frozen=True)
class Goal:
    """A quantity that must reach a target: its series in each run, and the targets to choose from."""

    name: str
    series: pd.DataFrame
    target: Choice


@url_state.fragment
def effort(view: View, first: str = "accuracy") -> None:
    """Draw the panel; ``first`` is the goal shown first, if these runs have it."""
    goals = goal_choice(view, first)
    goal = goal_of(view, goals.value())
    if goal is None:
        return
    page.section(HEADING)
    with st.container(horizontal=True, vertical_alignment="bottom", key="effort_controls"):
        if len(goals.titles) > 1:
            goals.switch()
        cost = cast(communication.CommunicationCost, cost_of(view).switch())
        chosen = goal.target.slide()
    found = figure(view, goal, cost, chosen)
    if isinstance(found, str):
        st.info(plain(found))
    else:
        page.show(found)


def part(view: View, choices: Choices, first: str = "accuracy") -> Part | None:
    goal = goal_of(view, goal_choice(view, first).made_in(choices))
    if goal is None:
        return None
    cost = cast(communication.CommunicationCost, cost_of(view).made_in(choices))
    found = figure(view, goal, cost, goal.target.made_in(choices))
    return None if isinstance(found, str) else Part(HEADING, (found,))


def cost_of(view: View) -> Choice:
    """What is counted until the target."""
    titles = {str(name): AXIS_CHOICES.get(name, "Rounds") for name in communication.TITLES}
    return Choice("Counted in", offered(titles, view.is_simulated), "count", "rounds")


def goal_choice(view: View, first: str = "accuracy") -> Choice:
    """A distance from the true model is known for generated data only."""
    titles = GOALS if len(view.means("total_error")) else {"accuracy": GOALS["accuracy"]}
    return Choice("Goal", titles, "goal", first if first in titles else "accuracy")


def goal_of(view: View, name: str) -> Goal | None:
    """The goal of this name; None if no target distinguishes the methods."""
    series = _series(view, name)
    best = reached_by_all_seeds(series, name)
    titles = targets(best, name)
    if len(titles) < 2:
        return None
    return Goal(name, series, Choice("Target", titles, "target", default_target(best, list(titles), name)))


def figure(view: View, goal: Goal, cost: communication.CommunicationCost, target: str) -> Shown | str:
    """The costs of each method to reach the target; a sentence if none reaches it."""
    shown = goal.target.titles[target]
    points = view.keep(("effort", goal.name, target), lambda: points_of(view, goal, target))
    words = f"{'a mean accuracy of' if goal.name == 'accuracy' else 'an error of'} {shown}"
    finding = communication.finding(points, cost, words, view.is_ranked)
    if points.empty:
        return finding
    return with_finding(
        figure_cache.figure(communication.figure, points, cost, shown),
        tables.for_download(points),
        finding,
        key="effort",
        name="communication-computation",
        title="Communication against computation",
        also="Lines join settings that differ only in local work per round. "
        f"{communication.missed([m.name for m in view.methods], points)}".strip(),
        heads=RUNS if (points["unit"] == "split").any() else None,
    )


def points_of(view: View, goal: Goal, target: str) -> pd.DataFrame:
    """A row per method, as returned by ``communication.data``."""
    until = communication.reached(goal.series, float(target), falls=goal.name == "error")
    return communication.data(view.with_options(), until, view.costs_until(until))


def reached_by_all_seeds(series: pd.DataFrame, goal: str) -> pd.Series:
    """[run, method, value] -> method: the best value that each of its seeds reaches in some round."""
    best, worst = ("min", "max") if goal == "error" else ("max", "min")
    return series.groupby(["method", "run"])["value"].agg(best).groupby("method").agg(worst)


def targets(best: pd.Series, goal: str) -> dict[str, str]:
    """Targets between what every method reaches and what only the best one does, hardest last."""
    low, high = float(best.min()), float(best.max())
    if best.empty or not high > low:
        return {}
    if goal == "error":
        values = np.geomspace(high, max(low, 1e-6), MAX_TARGETS)
        return {text: number(float(text)) for text in map(_rounded_up, values)}
    step = max(1, round(100 * (high - low) / MAX_TARGETS))
    percents = np.arange(np.ceil(100 * low - 1e-6), np.floor(100 * high + 1e-6) + 1, step).astype(int)
    return {f"{p / 100:g}": f"{p} %" for p in percents}


def _rounded_up(value: float) -> str:
    """Three digits, rounded up: the value itself would miss a lower target."""
    text = f"{value:.3g}"
    return text if float(text) >= value else f"{float(text) + 10 ** (floor(log10(value)) - 2):.3g}"


def default_target(best: pd.Series, values: list[str], goal: str) -> str:
    """The hardest target that half of the methods reach."""
    middle = float(best.median())
    within = [v for v in values if (float(v) >= middle if goal == "error" else float(v) <= middle)]
    return within[-1] if within else values[0]


def _series(view: View, goal: str) -> pd.DataFrame:
    """[run, method, round, value] of the target's measure."""
    if goal == "error":
        errors = view.source.mean_series(list(view.runs.values()), [f"{view.model}.total_error"])
        return with_methods(errors, view.methods).dropna(subset=["value"])
    known = view.series().dropna(subset=["value"])
    return known[known["name"] == f"{view.model}.mean"]
