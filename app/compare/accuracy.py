"""The section on accuracy: its distribution over clients, and all numbers."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import streamlit as st

from app.charts import dumbbell, ecdf, histogram
from app.charts.plot import figure_cache
from app.compare import chosen_clients, headline, open_run, tables
from app.compare.numbers import numbers
from app.compare.section import Part
from app.compare.view import METHOD, SORTS, View, more
from app.components import page
from app.components.shown import Shown, with_finding
from app.data.column_heads import Head
from app.data.comparison import REFERENCES
from app.state import url_state
from app.state.choice import Choice, Choices
from app.wording import capital

SORT = Choice("Sort by", SORTS, "sort", "mean")
SHAPE = Choice("Every client", {"ecdf": "Cumulative", "histogram": "Histogram"}, "shape", "ecdf")


def draw(view: View, rows: View) -> None:
    distribution(rows)
    numbers(rows)


def parts(view: View, rows: View, choices: Choices) -> Iterator[Part]:
    clients = chosen_clients.chosen(rows, choices)
    by = cast(dumbbell.SortKey, SORT.made_in(choices))
    shape = bars(rows, clients)
    if SHAPE.made_in(choices) == "ecdf":
        shape = stairs(rows, highlight(rows).made_in(choices), clients)
    yield Part(tail_finding(rows), (low_mean_top(rows, by, clients), shape))


def distribution(view: View) -> None:
    """Accuracy by client under each method: lowest, mean and top clients, and the whole distribution."""
    page.section(tail_finding(view))
    clients = chosen_clients.chosen(view)
    left, right = st.columns(2, gap="large")
    with left:
        with st.container(horizontal=True, vertical_alignment="bottom", key="sort_controls"):
            by = cast(dumbbell.SortKey, SORT.switch())
            if view.by == METHOD and view.is_stored:
                open_run.look_inside(view)
        page.show(low_mean_top(view, by, clients), on_select=_follow_method(view))
    with right:
        with st.container(horizontal=True, vertical_alignment="bottom", key="shape_controls"):
            shape = SHAPE.switch()
            method = highlight(view).pick() if shape == "ecdf" else ""
        if shape == "histogram":
            page.show(bars(view, clients))
        else:
            page.show(stairs(view, method, clients), on_select=_follow_clients, has_frame=True)


def tail_finding(view: View) -> str:
    """The heading: the method with the best lowest clients."""
    runs = view.per_run()
    if not view.is_ranked or runs["method"].nunique() < 2:
        return "Accuracy by client"
    return f"Lowest {view.tail} %: {headline.title(runs, 'lowest', 'tail_samples')}"


def highlight(view: View) -> Choice:
    """The highlighted method; it is method A of the pair in Clients."""
    ranked = view.ranked()
    return Choice("Highlight", {name: name for name in ranked}, "a", ranked[0])


def baseline(view: View, method: str) -> str:
    """The baseline of a method: one model for all, else training alone, else the next best."""
    of = {m.name: m.algorithm for m in view.methods}
    others = [name for name in view.ranked() if name != method]
    known = (name for algorithm in REFERENCES for name in others if of[name] == algorithm)
    return next(known, next(iter(others), ""))


def low_mean_top(view: View, by: dumbbell.SortKey, clients: Sequence[int]) -> Shown:
    rows = view.keep(
        ("low, mean, top", by),
        lambda: dumbbell.data(view.clients(), view.share, by, view.clients(view.other_model)),
    ).assign(unit=view.spread.removesuffix("s"))
    ring = f"; ring: mean of the {view.other_model} model" if rows["other"].notna().any() else ""
    dots = "; dots: the chosen clients" if clients else ""
    return Shown(
        figure_cache.figure(
            dumbbell.figure, rows, view.share, view.other_model, chosen_clients.accuracies(view, clients)
        ),
        tables.for_download(rows),
        dumbbell.finding(rows, by, view.share, view.is_ranked),
        f"Lowest {view.tail} % ◂ mean ▸ top {view.tail} %",
        f"{view.tail_words(rows).capitalize()}; {view.rule}; whisker: {view.whisker}{ring}{dots}.",
        key="dumbbell",
        name="low-mean-top",
        heads={"seeds": Head(capital(view.spread))},
    )


def stairs(view: View, method: str, clients: Sequence[int]) -> Shown:
    steps, drawn = view.keep("steps", lambda: ecdf.data(view.clients())), view.drawn(ecdf.MAX_LINES)
    against = baseline(view, method)
    shown = [*(name for name in drawn if name not in (method, against)), *filter(None, (against, method))]
    return Shown(
        figure_cache.figure(ecdf.figure, steps, view.share, shown[-ecdf.MAX_LINES :], method, against, clients),
        steps,
        ecdf.finding(steps, drawn, view.has_malicious),
        "Share of clients at or below an accuracy",
        f"{view.rule.capitalize()}; further right is better. One step per client and run."
        f"{more(view.clients()['method'].nunique(), len(drawn))}",
        key="ecdf",
        name="ecdf",
    )


def bars(view: View, clients: Sequence[int]) -> Shown:
    bins, drawn = histogram.data(view.clients()), view.drawn(ecdf.MAX_LINES)
    left_out = more(view.clients()["method"].nunique(), len(drawn))
    return with_finding(
        figure_cache.figure(histogram.figure, bins, drawn, chosen_clients.accuracies(view, clients)),
        bins,
        histogram.finding(bins),
        key="histogram",
        name="histogram",
        title="Clients by accuracy",
        also=f"Bins of {100 * histogram.WIDTH:g} points; all rows share one scale. {view.rule.capitalize()}.{left_out}",
    )


def _follow_method(view: View) -> Callable[[], None]:
    """A click on a row highlights its method, and offers its first run."""
    first_run = {method.name: str(method.runs[0].id) for method in view.methods}

    def write() -> None:
        if points := chosen_clients.selected("dumbbell"):
            name = str(points[0][0])
            url_state.choose(inside=first_run[name], a=name)

    return write


def _follow_clients() -> None:
    """Choose the clients in the selected box; for a single client also its run."""
    points = chosen_clients.selected("ecdf")
    if points:
        chosen_clients.choose(int(client) for client, *_ in points)
    if len(points) == 1:
        url_state.choose(inside=str(int(points[0][2])))
