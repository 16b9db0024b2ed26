"""The panels on accuracy: its distribution over clients, how fast it comes and at what price, who loses."""

from typing import cast

import pandas as pd
import streamlit as st

from app import address
from app.charts import cost, curves_over_seeds, differences, dumbbell, ecdf, paired
from app.compare.comparability import same_clients
from app.compare.view import AXES, COSTS, SORTS, View
from app.comparison import per_run
from app.components import page
from app.wording import names, percent, plain, plural


def distribution(view: View, clients: pd.DataFrame) -> None:
    by = cast(dumbbell.SortKey, address.value("sort", SORTS, "mean"))
    left, right = st.columns(2, gap="large")
    with left:
        rows = dumbbell.data(clients, view.share, by, view.clients(view.other_model))
        ring = f"; ring: mean of the {view.other_model} model" if rows["other"].notna().any() else ""
        page.chart(
            dumbbell.figure(rows, view.share, view.other_model), rows, key="dumbbell", name="low-mean-top",
            title=f"Lowest {view.tail} % ◂ mean ▸ top {view.tail} %",
            alt=f"{rows.iloc[0]['method']} comes first by {SORTS[by]}, with a mean of {percent(rows.iloc[0]['mean'])}",
            caption=f"{view.tail_words(rows).capitalize()}; {view.rule}; whisker: ± over seeds{ring}.",
        )  # fmt: skip
    with right:
        steps = ecdf.data(clients)
        page.chart(
            ecdf.figure(steps, view.share), steps, key="ecdf", name="ecdf",
            title="Share of clients at or below an accuracy",
            alt=f"Distribution of the accuracy of {plural(len(steps), 'client')} under {names(steps['method'], 12)}",
            caption=f"{view.rule.capitalize()}; further right is better. Every client of every seed is one step.",
        )  # fmt: skip


@st.fragment
def over_time(view: View, clients: pd.DataFrame) -> None:
    st.header("How fast, and at what price?", anchor=False)
    series = view.series()
    left, right = st.columns(2, gap="large")
    with left:
        x = cast(curves_over_seeds.Axis, address.switch("Across", AXES, "x", "round"))
        lines = curves_over_seeds.data(series, view.model, x)
        dashed = ", and the lowest 5 % dashed" if lines["method"].nunique() <= curves_over_seeds.MOST_DASHED else ""
        page.chart(
            curves_over_seeds.figure(lines, x), lines, key="curves", name=f"accuracy-over-{x}",
            title=f"Mean accuracy{dashed}",
            alt=f"{view.model} accuracy over {curves_over_seeds.AXIS_TITLES[x]} for {names(lines['method'], 12)}",
            caption=f"{view.model.capitalize()} model, mean over clients and seeds. {_left_out(lines)}",
        )  # fmt: skip
    with right:
        price = cast(curves_over_seeds.Axis, address.switch("Price", COSTS, "price", "megabytes"))
        points = cost.data(view.with_costs(clients, series), price)
        page.chart(
            cost.figure(points, price), points, key="cost", name=f"accuracy-against-{price}",
            title="Accuracy against what it costs", alt=cost.finding(points, price),
            caption=f"{cost.finding(points, price)} {view.rule.capitalize()}, everything spent until then.",
        )  # fmt: skip


@st.fragment
def who_loses(view: View, clients: pd.DataFrame) -> None:
    ranked = per_run(clients, view.share).groupby("method")["mean"].mean().sort_values(ascending=False)
    if len(ranked) < 2:
        return
    st.header("Which clients lose?", anchor=False)
    by_name = {method.name: method for method in view.methods}
    titles = {name: name for name in ranked.index}
    with st.container(horizontal=True, key="pair_controls"):
        a = address.pick("Method A", titles, "a", ranked.index[0])
        others = {name: name for name in titles if name != a}
        rivals = (name for name in others if by_name[name].algorithm != by_name[a].algorithm)
        b = address.pick("against method B", others, "b", next(rivals, next(iter(others))))
    pairs = differences.data(clients, a, b)
    if pairs.empty or not same_clients(by_name[a], by_name[b]):
        st.info(plain(f"{a} and {b} have no clients in common: their data, partitions or seeds differ."))
        return
    sentence = paired.verdict(pairs).sentence(a, b, pairs["seed"].nunique())
    st.markdown(f"**{plain(sentence)}**")
    left, right = st.columns(2, gap="large")
    with left:
        page.chart(
            paired.figure(pairs, a, b, clients), pairs, key="paired", name="paired", alt=sentence,
            title=f"Each client under both; above the line {a} is better",
        )  # fmt: skip
    with right:
        page.chart(
            differences.figure(pairs, a, b, clients), pairs, key="differences", name="differences", alt=sentence,
            title="The same differences, sorted",
        )  # fmt: skip


def _left_out(lines: pd.DataFrame) -> str:
    """What the curves leave out so that they can be read."""
    count = lines["method"].nunique()
    if count > curves_over_seeds.MOST_LINES:
        return f"{count - curves_over_seeds.MOST_LINES} more methods are in the table."
    if count > curves_over_seeds.MOST_DASHED:
        return f"The lowest 5 % appear for {curves_over_seeds.MOST_DASHED} methods or fewer."
    if count > curves_over_seeds.MOST_BANDS:
        return f"Bands over seeds appear for {curves_over_seeds.MOST_BANDS} methods or fewer."
    return "The band is ± one deviation over seeds." if lines["mean_pm"].notna().any() else "One seed each."
