"""Accuracy at equal cost: what the tuned methods reached with the same megabytes or gradients."""

import numpy as np
import pandas as pd
import streamlit as st

from app.components import page, terms
from app.data import queries
from app.data.costs import AXIS_TITLES, COST_CHOICES, Cost, recorded
from app.state import url_state
from app.state.choice import Choice
from app.statistics.equal_cost import SHARES, accuracy_at, budgets
from app.study.numbers import TUNED
from app.study.study import Study
from app.wording import MISSING, capital, count, names, number
from engine.core.vocabulary import megabytes

NOT_YET = "not yet"
AXIS = Choice("Cost", {k: COST_CHOICES[k] for k in ("megabytes", "gradient_evaluations")}, "price", "megabytes")


def data(series: pd.DataFrame, runs: pd.DataFrame, cost: Cost) -> pd.DataFrame:
    """[run, round, name, value] of the tuned runs -> [method, budget, accuracy]; NaN: not yet.

    Seeds are averaged inside splits, and then the splits on which all methods have results. Round 0, the untrained
    model, does not count.

    ``runs`` [run, method, split]. Budgets are the total of the cheapest method that spends anything, a half and a
    quarter. The total of a method is that of its most expensive run, so that all runs of the cheapest one count at the
    end.
    """
    runs = runs[runs["split"].isin(shared_splits(runs))]
    wide = series.pivot_table(index=["run", "round"], columns="name", values="value").sort_index()
    costs = list(recorded(cost))
    wide = wide.reindex(columns=[*costs, "personalized.mean"])
    spent = wide[costs].fillna(0.0).groupby(level="run").cumsum()
    wide["cost"] = megabytes(spent) if cost == "megabytes" else spent[cost]
    trained = wide[wide.index.get_level_values("round") > 0]
    of = runs.drop_duplicates("run").set_index("run")["method"]
    totals = wide["cost"].groupby(level="run").last().groupby(of).max()
    parts = [pd.DataFrame(columns=["method", "accuracy", "budget"])]
    for budget in budgets(list(totals)):
        reached = {
            run: accuracy_at(budget, own["cost"].to_numpy(float), own["personalized.mean"].to_numpy(float))
            for run, own in trained.groupby(level="run")
        }
        of_run = runs.assign(accuracy=runs["run"].map(reached)).groupby(["method", "split"], sort=False)["accuracy"]
        means = of_run.agg(_mean).groupby(level="method", sort=False).agg(_mean)
        parts.append(means.reset_index().assign(budget=budget))
    return pd.concat(parts[1:] or parts, ignore_index=True)[["method", "budget", "accuracy"]]


def _mean(values: pd.Series) -> float:
    """NaN if a value is."""
    return float(values.mean(skipna=False))


def shared_splits(runs: pd.DataFrame) -> list[int]:
    """[run, method, split] -> the splits on which all methods have results."""
    methods = runs.groupby("split")["method"].nunique()
    return list(methods.index[methods == runs["method"].nunique()])


def tuned_runs(study: Study) -> pd.DataFrame:
    return study.final_runs[study.final_runs["setting"] == TUNED]


def table(study: Study, cost: Cost) -> pd.DataFrame:
    """``data`` of the tuned final runs."""
    own = tuned_runs(study)
    ids = set(own["run"])
    series = queries.scalar_series(
        [run for run in study.finals if run.id in ids], ["personalized.mean", *recorded(cost)]
    )
    return data(series, own, cost)


def as_shown(rows: pd.DataFrame, cost: Cost) -> pd.DataFrame:
    """A column per budget, the largest first; ``not yet`` where the first evaluated round costs more."""
    wide = rows.pivot_table(index="method", columns="budget", values="accuracy", sort=False, dropna=False)
    wide = wide[sorted(wide.columns, reverse=True)].sort_values(max(wide.columns), ascending=False, kind="stable")
    unit = "MB" if cost == "megabytes" else "gradients"
    shown = pd.DataFrame({"Method": wide.index})
    for budget in wide.columns:
        values = [NOT_YET if np.isnan(value) else f"{100 * value:.1f} %" for value in wide[budget]]
        shown[f"at {number(budget) if cost == 'megabytes' else count(budget)} {unit}"] = values
    return shown


@url_state.fragment
def panel(study: Study) -> None:
    if study.final_runs.empty:
        return
    page.section("What do they reach at the same cost?")
    cost = cost_of(AXIS.switch())
    rows = table(study, cost)
    if rows.empty:
        spends_nothing = f"No method of this study spends any {AXIS_TITLES[cost]}."
        st.info(spends_nothing if shared_splits(tuned_runs(study)) else "No split has results of all methods.")
        return
    shown = as_shown(rows, cost)
    st.dataframe(
        shown,
        hide_index=True,
        height=page.table_height(len(shown)),
        key="equal_cost",
        placeholder=MISSING,
        alt="Accuracy at equal cost",
    )
    terms.caption(about(study, cost), "equal_cost")


def cost_of(axis: str) -> Cost:
    return "gradient_evaluations" if axis == "gradient_evaluations" else "megabytes"


def about(study: Study, cost: Cost) -> str:
    splits = shared_splits(tuned_runs(study))
    left = f" Only {names(f'split {split}' for split in splits)}: the others lack results of some methods."
    parts = names((f"{100 * share:g} %" for share in SHARES), last="or")
    return (
        f"Mean test accuracy at the last evaluated round within the budget: {parts} of what the cheapest method spends "
        f"in its most expensive run ({AXIS_TITLES[cost]}). {capital(NOT_YET)}: the first evaluated round costs more. "
        "Settings were chosen at full length."
        f"{left if len(splits) < len(study.splits) else ''}"
    )
