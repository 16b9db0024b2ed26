"""The panels on accuracy: its distribution over clients, how fast it rises and at what cost, who loses."""

from typing import cast

import pandas as pd
import streamlit as st

from app.charts import cost, curves_over_seeds, differences, dumbbell, ecdf, histogram, paired
from app.charts.plot import figure_cache
from app.compare import open_run, tables
from app.compare.comparability import same_clients
from app.compare.view import METHOD, SORTS, View, more
from app.components import page
from app.data import column_heads
from app.data.comparison import Method
from app.data.costs import AXIS_CHOICES, AXIS_TITLES, COST_CHOICES, Axis, Cost
from app.state import url_state
from app.wording import capital, names, plain, signed_points

SHAPES = {"ecdf": "Cumulative", "histogram": "Histogram"}


@url_state.fragment
def distribution(view: View) -> None:
    page.section("Accuracy by client")
    left, right = st.columns(2, gap="large")
    with left:
        by = cast(dumbbell.SortKey, url_state.switch("Sorted by", SORTS, "sort", "mean"))
        low_mean_top(view, by)
    with right:
        shape = url_state.switch("Every client", SHAPES, "shape", "ecdf")
        drawn = view.drawn(ecdf.MOST_LINES)
        left_out = more(view.clients()["method"].nunique(), len(drawn))
        if shape == "histogram":
            bars(view, drawn, left_out)
        else:
            stairs(view, drawn, left_out)
    if view.by == METHOD:
        open_run.look_inside(view)


def low_mean_top(view: View, by: dumbbell.SortKey) -> None:
    rows = view.keep(
        ("low, mean, top", by),
        lambda: dumbbell.data(view.clients(), view.share, by, view.clients(view.other_model)),
    )
    ring = f"; ring: mean of the {view.other_model} model" if rows["other"].notna().any() else ""
    first_run = {method.name: str(method.runs[0].id) for method in view.methods}
    page.chart(
        figure_cache.figure(dumbbell.figure, rows, view.share, view.other_model),
        tables.for_download(rows),
        key="dumbbell",
        name="low-mean-top",
        title=f"Lowest {view.tail} % ◂ mean ▸ top {view.tail} %",
        alt=dumbbell.finding(rows, by, view.share),
        caption=f"{view.tail_words(rows).capitalize()}; {view.rule}; whisker: ± over {view.spread}{ring}.",
        on_select=open_run.follow("dumbbell", lambda who: {"inside": first_run[str(who[0])]}),
    )


def stairs(view: View, drawn: list[str], left_out: str) -> None:
    steps = view.keep("steps", lambda: ecdf.data(view.clients()))
    page.chart(
        figure_cache.figure(ecdf.figure, steps, view.share, drawn),
        steps,
        key="ecdf",
        name="ecdf",
        title="Share of clients at or below an accuracy",
        alt=ecdf.finding(steps, drawn),
        caption=f"{view.rule.capitalize()}; further right is better. One step per client and run.{left_out}",
        on_select=open_run.follow("ecdf", lambda who: {"client": str(int(who[0])), "inside": str(int(who[2]))}),
    )


def bars(view: View, drawn: list[str], left_out: str) -> None:
    bins = histogram.data(view.clients())
    page.finding_chart(
        figure_cache.figure(histogram.figure, bins, drawn),
        bins,
        histogram.finding(bins),
        key="histogram",
        name="histogram",
        title="Clients by accuracy",
        also=f"Bins of {100 * histogram.WIDTH:g} points; all rows share one scale. {view.rule.capitalize()}.{left_out}",
    )


@url_state.fragment
def over_time(view: View) -> None:
    page.section("How fast, and at what cost?")
    left, right = st.columns(2, gap="large")
    with left:
        x = cast(Axis, url_state.switch("Across", AXIS_CHOICES, "x", "round"))
        lines = view.curves(x)
        drawn = view.drawn(curves_over_seeds.MOST_LINES)
        dashed = ", and the lowest 5 % dashed" if len(drawn) <= curves_over_seeds.MOST_DASHED else ""
        page.chart(
            figure_cache.figure(curves_over_seeds.figure, lines, x, drawn),
            lines,
            key="curves",
            name=f"accuracy-over-{x}",
            title=f"Mean accuracy{dashed}",
            alt=f"{view.model} accuracy over {AXIS_TITLES[x]} for {names(drawn, 12)}",
            caption=f"{view.model.capitalize()} model, mean over clients and {view.spread}. {_left_out(lines, view)}",
            heads={"x": column_heads.Head(f"Axis: {AXIS_TITLES[x]}")},
        )
    with right:
        price = cast(Cost, url_state.switch("Cost", COST_CHOICES, "price", "megabytes"))
        points = view.keep(("cost", price), lambda: cost.data(view.with_costs(), price))
        unnamed = f" {cost.MOST_NAMED} points are labelled." if len(points) > cost.MOST_NAMED else ""
        page.finding_chart(
            figure_cache.figure(cost.figure, points, price),
            points,
            cost.finding(points, price),
            key="cost",
            name=f"accuracy-against-{price}",
            title="Accuracy against cost",
            also=f"{view.rule.capitalize()}, total cost up to that round.{unnamed}",
            heads={"cost": column_heads.Head(capital(AXIS_TITLES[price]))},
        )


@url_state.fragment
def who_loses(view: View) -> None:
    clients = view.clients()
    ranked = view.per_run().groupby("method")["mean"].mean().sort_values(ascending=False)
    if len(ranked) < 2:
        return
    page.section("Which clients lose?")
    by_name = {method.name: method for method in view.methods}
    a, b = chosen_pair(list(ranked.index), by_name)
    pairs = view.keep(("pairs", a, b), lambda: differences.data(clients, a, b))
    if pairs.empty or not same_clients(by_name[a], by_name[b]):
        st.info(plain(f"{a} and {b} have no clients in common: their data, partitions or seeds differ."))
        return
    verdict = paired.verdict(pairs)
    sentence = verdict.sentence(a, b, int(pairs["seeds"].max()))
    st.markdown(f"**{plain(sentence)}**")
    st.caption(plain(f"{verdict.test()}{_redrawn(by_name[a])}"))
    heads = {"a": column_heads.percent(a), "b": column_heads.percent(b)}
    left, right = st.columns(2, gap="large")
    with left:
        page.chart(
            figure_cache.figure(paired.figure, pairs, a, b, clients),
            pairs,
            key="paired",
            name="paired",
            alt=sentence,
            title=f"Accuracy of each client under both; above the line {a} is better",
            heads=heads,
            on_select=open_run.follow("paired", lambda who: {"client": str(int(who[1]))}),
        )
    with right:
        page.chart(
            figure_cache.figure(differences.figure, pairs, a, b, clients),
            pairs,
            key="differences",
            name="differences",
            alt=sentence,
            title="Difference by client, sorted",
            heads=heads,
            on_select=open_run.follow("differences", lambda who: {"client": str(int(who[0]))}),
        )
    one_client(view, pairs, a, b)


def chosen_pair(ranked: list[str], by_name: dict[str, Method]) -> tuple[str, str]:
    """By default the best, and the best of another algorithm."""
    titles = {name: name for name in ranked}
    with st.container(horizontal=True, key="pair_controls"):
        a = url_state.pick("Method A", titles, "a", ranked[0])
        others = {name: name for name in titles if name != a}
        rivals = (name for name in others if by_name[name].algorithm != by_name[a].algorithm)
        b = url_state.pick("against method B", others, "b", next(rivals, next(iter(others))))
    return a, b


def one_client(view: View, pairs: pd.DataFrame, a: str, b: str) -> None:
    """Links for the selected client; the list offers the same from the keyboard."""
    titles = {"": "no client"} | {
        str(row.client): f"client {row.client}: {signed_points(row.difference, row.samples)} points"
        for row in pairs.itertuples()
    }
    with st.container(horizontal=True, vertical_alignment="bottom", key="one_client"):
        chosen = url_state.pick("Look at one client", titles, "client", "")
        open_run.client_links(view, [a, b], int(chosen) if chosen else None)


def _redrawn(method: Method) -> str:
    """Whether client 3 of one seed is client 3 of the next."""
    splits = {str((run.partition or {}).get("class_counts")) for run in method.runs}
    return " Each seed draws new data: a client number is a position in the partition." if len(splits) > 1 else ""


def _left_out(lines: pd.DataFrame, view: View) -> str:
    """What the curves omit to stay legible."""
    count = lines["method"].nunique()
    if count > curves_over_seeds.MOST_LINES:
        return more(count, curves_over_seeds.MOST_LINES).strip()
    if count > curves_over_seeds.MOST_DASHED:
        return f"The lowest 5 % is shown for up to {curves_over_seeds.MOST_DASHED} methods."
    if count > curves_over_seeds.MOST_BANDS:
        return f"Bands over {view.spread} are shown for up to {curves_over_seeds.MOST_BANDS} methods."
    has_band = lines["mean_pm"].notna().any()
    return f"Band: ± one standard deviation over {view.spread}." if has_band else "One seed each."
