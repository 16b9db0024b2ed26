"""The panel on personalization against generalization: each client's model on its own data and on all other data."""

from typing import cast

import pandas as pd

from app.charts import sweep, tradeoff
from app.charts.cost import MAX_NAMED
from app.compare import generalization, tables
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.data.column_heads import Head
from app.data.costs import AXIS_TITLES, COST_CHOICES, Cost, offered
from app.state import url_state
from app.state.choice import Choice, Choices
from app.wording import capital

HEADING = "Own data versus everyone's"


@url_state.fragment
def draw(view: View) -> None:
    runs, whose = measured(view)
    if view.model == "global" and runs.empty:
        return  # one model for all: there is no trade-off
    page.section(HEADING)
    if runs["method"].nunique() >= 2:
        page.show(plane(view, runs, whose, cast(Cost, size_of(view).switch()), url_state.get("parameter")))
    if whose == generalization.OTHERS:
        generalization.offer(view)


def part(view: View, choices: Choices) -> Part | None:
    runs, whose = measured(view)
    if runs["method"].nunique() < 2:
        return None
    price = cast(Cost, size_of(view).made_in(choices))
    return Part(HEADING, (plane(view, runs, whose, price, choices.get("parameter")),))


def size_of(view: View) -> Choice:
    """The cost that the marks show by their size."""
    return Choice("Marker size", offered(COST_CHOICES, view.is_simulated), "size", "megabytes")


def measured(view: View) -> tuple[pd.DataFrame, str]:
    """The runs whose models were also measured on other data, and a description of that data."""
    everywhere, whose = generalization.elsewhere(view)
    runs = view.with_options().assign(everywhere=lambda runs: runs["run"].map(everywhere).astype(float))
    return runs.dropna(subset=["everywhere"]), whose


def plane(view: View, runs: pd.DataFrame, whose: str, price: Cost, parameter: str | None) -> Shown:
    with_costs = runs.merge(view.with_costs()[["run", price]], on="run")
    found = sweep.parameters(view.with_options())
    dial = parameter if parameter in found else next(iter(found), None)
    points = tradeoff.data(with_costs, price, dial)
    unnamed = f" {MAX_NAMED} points are labeled." if len(points) > MAX_NAMED else ""
    return with_finding(
        tradeoff.figure(points, AXIS_TITLES[price]),
        tables.for_download(points),
        tradeoff.finding(points),
        key="tradeoff",
        name="trade-off",
        title="The trade-off plane",
        also=f"Vertical: the same models on {whose}. Both accuracies are of the {view.rule}; "
        f"marker size: cost.{unnamed}",
        heads={"cost": Head(capital(AXIS_TITLES[price])), "seeds": Head(capital(view.spread))},
    )
