"""The panels on hyper-parameters: which value is best, and the trade-off between own and others' data."""

from typing import cast

import pandas as pd

from app.charts import sweep, tradeoff
from app.charts.cost import MOST_NAMED
from app.compare import generalization
from app.compare.view import View
from app.components import page
from app.data import config_fields
from app.data.column_heads import Head
from app.data.costs import AXIS_TITLES, COST_CHOICES, COST_NAMES, Cost
from app.forms import label_of
from app.state import url_state
from app.wording import capital


@url_state.fragment
def swept(view: View) -> None:
    runs = view.with_options()
    found = {name: name.removeprefix("training.") for name in sweep.parameters(runs)}
    if not found:
        return
    parameter = url_state.value("parameter", found, next(iter(found)))
    rows = sweep.data(_with_validation(view, _with_own_choice(view, runs, parameter)), parameter)
    symbol, axis, meaning = _words(view, rows, parameter)
    page.section(f"Which {symbol} is best?")
    if len(found) > 1:
        url_state.pick("Parameter", found, "parameter", next(iter(found)))
    page.finding_chart(
        sweep.figure(rows, symbol, axis),
        rows,
        sweep.finding(rows, symbol),
        key="sweep",
        name=f"sweep-{parameter}",
        title=f"Accuracy by {symbol}; ★ best, chosen on {rows['chosen_on'].iloc[0]}; dashed: lowest {view.tail} %",
        also=f"{meaning} {view.rule.capitalize()}, whisker: ± over seeds.".strip(),
        heads={"value": Head(symbol)},
    )


@url_state.fragment
def both_ends(view: View) -> None:
    """The trade-off plane: each client's model on its own data and on all other data."""
    everywhere, whose = generalization.elsewhere(view)
    runs = view.with_options().assign(everywhere=lambda runs: runs["run"].map(everywhere).astype(float))
    known = runs.dropna(subset=["everywhere"])
    if view.model == "global" and known.empty:
        return  # one model for all: nothing is traded
    page.section("Own data versus everyone's")
    if known["method"].nunique() >= 2:
        plane(view, runs, known, whose)
    if whose == generalization.OTHERS:
        generalization.offer(view)


def plane(view: View, runs: pd.DataFrame, known: pd.DataFrame, whose: str) -> None:
    price = cast(Cost, url_state.switch("Marker size", COST_CHOICES, "size", "megabytes"))
    with_costs = known.merge(view.with_costs()[["run", *COST_NAMES]], on="run")
    dial = url_state.value("parameter", found := sweep.parameters(runs), next(iter(found), ""))
    points = tradeoff.data(with_costs, price, dial or None)
    unnamed = f" {MOST_NAMED} points are labelled." if len(points) > MOST_NAMED else ""
    page.finding_chart(
        tradeoff.figure(points, AXIS_TITLES[price]),
        points,
        tradeoff.finding(points),
        key="tradeoff",
        name="trade-off",
        title="The trade-off plane",
        also=f"Vertical: the same models on {whose}. Both accuracies are of the {view.rule}; "
        f"marker size: cost.{unnamed}",
        heads={"cost": Head(capital(AXIS_TITLES[price]))},
    )


def _with_own_choice(view: View, runs: pd.DataFrame, parameter: str) -> pd.DataFrame:
    """CGPFL-Heur records ``diagnostics.K_hat``: the K that it chose."""
    return runs.assign(itself=runs["run"].map(view.last(f"diagnostics.{parameter}_hat")).astype(float))


def _with_validation(view: View, runs: pd.DataFrame) -> pd.DataFrame:
    """Adds the mean validation accuracy, where runs have validation data."""
    return runs.assign(validation=runs["run"].map(view.means("val_accuracy")).astype(float))


def _words(view: View, rows: pd.DataFrame, parameter: str) -> tuple[str, str, str]:
    """Symbol, axis title with its direction, and the description of the parameter."""
    algorithms = set(rows.loc[rows["value"].notna(), "algorithm"])
    configs = [run.config for run in view.runs.values() if run.algorithm in algorithms]
    known = config_fields.parameter_of(parameter if "." in parameter else f"algorithm.{parameter}", configs)
    if known is None:
        plain_name = parameter.removeprefix("training.")
        return plain_name, plain_name, ""
    return known.symbol, label_of(known), known.description
