"""The section on cost: how fast and at what price accuracy rises, and own against everyone's data."""

from collections.abc import Iterator
from typing import cast

import pandas as pd
import streamlit as st

from app.charts import cost, curves_over_seeds
from app.charts.plot import figure_cache
from app.compare import effort, own_and_others, tables
from app.compare.section import Part
from app.compare.view import View, more
from app.components import page
from app.components.shown import Shown, with_finding
from app.data import column_heads
from app.data.comparison import ranking, surpassed
from app.data.costs import AXIS_CHOICES, AXIS_TITLES, COST_CHOICES, Axis, Cost, offered
from app.state import url_state
from app.state.choice import Choice, Choices
from app.wording import capital, names


def draw(view: View, rows: View) -> None:
    over_time(rows)
    left, right = st.columns(2, gap="large")
    with left:
        effort.effort(view)
    with right:
        own_and_others.draw(view)


def parts(view: View, rows: View, choices: Choices) -> Iterator[Part]:
    x, price = cast(Axis, across(rows).made_in(choices)), cast(Cost, price_of(rows).made_in(choices))
    yield Part(heading(rows, price), (curves(rows, x), against_cost(rows, price)))
    yield from filter(None, (effort.part(view, choices), own_and_others.part(view, choices)))


def across(view: View) -> Choice:
    """The horizontal axis of the curves."""
    return Choice("Across", offered(AXIS_CHOICES, view.is_simulated), "x", "round")


def price_of(view: View) -> Choice:
    """The cost of the final accuracy."""
    return Choice("Cost", offered(COST_CHOICES, view.is_simulated), "price", "megabytes")


@url_state.fragment
def over_time(view: View) -> None:
    """Draw accuracy over rounds or costs, and the final cost."""
    page.section(heading(view, cast(Cost, price_of(view).value())))
    left, right = st.columns(2, gap="large")
    with left:
        page.show(curves(view, cast(Axis, across(view).switch())))
    with right:
        page.show(against_cost(view, cast(Cost, price_of(view).switch())))


def heading(view: View, price: Cost) -> str:
    runs = view.with_costs()
    if not view.is_ranked or runs["method"].nunique() < 2:
        return "How fast, and at what cost?"
    return cost.heading(_points(view, price), ranking(runs, "mean").tied, surpassed(runs, "mean"), price)


def against_cost(view: View, price: Cost) -> Shown:
    points = _points(view, price)
    unnamed = f" {cost.MAX_NAMED} points are labeled." if len(points) > cost.MAX_NAMED else ""
    return with_finding(
        figure_cache.figure(cost.figure, points, price),
        tables.for_download(points),
        cost.finding(points, price),
        key="cost",
        name=f"accuracy-against-{price}",
        title="Accuracy against cost",
        also=f"{view.rule.capitalize()}, total cost up to that round.{unnamed}",
        heads={
            "cost": column_heads.Head(capital(AXIS_TITLES[price])),
            "seeds": column_heads.Head(capital(view.spread)),
        },
    )


def _points(view: View, price: Cost) -> pd.DataFrame:
    return view.keep(("cost", price), lambda: cost.data(view.with_costs(), price))


def curves(view: View, x: Axis) -> Shown:
    lines, drawn = view.curves(x), view.drawn(curves_over_seeds.MAX_LINES)
    dashed = ", and the lowest 5 % dashed" if len(drawn) <= curves_over_seeds.MAX_DASHED else ""
    return Shown(
        figure_cache.figure(curves_over_seeds.figure, lines, x, drawn),
        lines,
        f"{view.model} accuracy over {AXIS_TITLES[x]} for {names(drawn, 12)}",
        f"Mean accuracy{dashed}",
        f"{view.model.capitalize()} model, mean over clients and {view.spread}. {_left_out(view, x)}"
        f"{_cut_short(view, x)}",
        key="curves",
        name=f"accuracy-over-{x}",
        heads={
            "x": column_heads.Head(f"Axis: {AXIS_TITLES[x]}"),
            "seeds": column_heads.Head(capital(view.spread)),
        },
    )


def _cut_short(view: View, x: Axis) -> str:
    """The methods of which a run ended sooner than others, and with it the curve."""
    lines, evaluated = view.curves(x), view.last_evaluated
    ends = lines.groupby("method")["round"].max()
    longest = {m.name: max((evaluated.get(i, 0) for i in m.run_ids), default=0) for m in view.methods if m.name in ends}
    short = [f"{name} at round {ends[name]} of {last}" for name, last in longest.items() if ends[name] < last]
    return f" A curve ends with the shortest run of its method: {names(short)}." if short else ""


def _left_out(view: View, x: Axis) -> str:
    """A note on what the curves omit to be legible."""
    lines = view.curves(x)
    count = lines["method"].nunique()
    if count > curves_over_seeds.MAX_LINES:
        return more(count, curves_over_seeds.MAX_LINES).strip()
    if count > curves_over_seeds.MAX_DASHED:
        return f"The lowest 5 % is shown for up to {curves_over_seeds.MAX_DASHED} methods."
    if count > curves_over_seeds.MAX_BANDS:
        return f"Bands over {view.spread} are shown for up to {curves_over_seeds.MAX_BANDS} methods."
    has_band = lines["mean_pm"].notna().any()
    return (
        f"Band: ± one standard deviation over {view.spread}."
        if has_band
        else f"One {view.spread.removesuffix('s')} each."
    )
