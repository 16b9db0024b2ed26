"""The panel on two methods: the same clients under both, and the differences."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.charts import differences, paired
from app.charts.plot import figure_cache
from app.compare import chosen_clients, open_run
from app.compare.comparability import same_clients
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown
from app.data import column_heads
from app.data.comparison import Method, unit_of
from app.state.choice import Choice, Choices
from app.state.links import parse_ids
from app.wording import names, plain, signed_points

UNPAIRED = "Which clients lose?"
MAX_NAMED = 12  # clients


def draw(view: View) -> None:
    if len(view.ranked()) < 2:
        return
    a = method_a(view).value()
    b = method_b(view, a).value()
    pairs = pairs_of(view, a, b)
    page.section(title(view, pairs, a, b))
    with st.container(horizontal=True, key="pair_controls"):
        method_a(view).pick()
        method_b(view, a).pick()
    if pairs is None:
        st.info(plain(f"{a} and {b} have no clients in common: their data, partitions or seeds differ."))
        return
    clients = chosen_clients.chosen(view)
    left, right = st.columns(2, gap="large")
    scatter, sorted_bars = figures(view, pairs, a, b, clients)
    with left:
        choose = chosen_clients.by_selection("paired", lambda who: parse_ids(str(who[2])))
        page.show(scatter, on_select=choose, has_frame=True)
    with right:
        choose = chosen_clients.by_selection("differences", lambda who: [int(who[0])])
        page.show(sorted_bars, on_select=choose, has_frame=True)
    st.markdown(plain(sentence(view, pairs, a, b)))
    st.caption(plain(f"{verdict(view, pairs).test()}{_redrawn(_by_name(view)[a])}"))
    if clients:
        st.markdown(plain(_gains(pairs, clients, a, b)))
        open_run.client_links(view, [a, b], clients)


def part(view: View, choices: Choices) -> Part | None:
    if len(view.ranked()) < 2:
        return None
    a = method_a(view).made_in(choices)
    b = method_b(view, a).made_in(choices)
    pairs = pairs_of(view, a, b)
    if pairs is None:
        return None
    return Part(title(view, pairs, a, b), figures(view, pairs, a, b, chosen_clients.chosen(view, choices)))


def method_a(view: View) -> Choice:
    """The control for method A, by default the best."""
    ranked = view.ranked()
    return Choice("Method A", {name: name for name in ranked}, "a", ranked[0])


def method_b(view: View, a: str) -> Choice:
    """The control for method B, by default the best of another algorithm."""
    of = _by_name(view)
    others = [name for name in view.ranked() if name != a]
    rivals = (name for name in others if of[name].algorithm != of[a].algorithm)
    return Choice("Method B", {name: name for name in others}, "b", next(rivals, others[0]))


def pairs_of(view: View, a: str, b: str) -> pd.DataFrame | None:
    """``differences.data``; None if the methods have no clients in common."""
    of = _by_name(view)
    pairs = view.keep(("pairs", a, b), lambda: differences.data(view.clients(), a, b))
    return None if pairs.empty or not same_clients(of[a], of[b]) else pairs


def title(view: View, pairs: pd.DataFrame | None, a: str, b: str) -> str:
    return UNPAIRED if pairs is None else verdict(view, pairs).heading(a, b)


def sentence(view: View, pairs: pd.DataFrame, a: str, b: str) -> str:
    return verdict(view, pairs).sentence(a, b, int(pairs["seeds"].max()))


def verdict(view: View, pairs: pd.DataFrame) -> paired.Verdict:
    return paired.verdict(pairs, view.has_malicious, unit_of(view.clients()))


def figures(view: View, pairs: pd.DataFrame, a: str, b: str, clients: Sequence[int]) -> tuple[Shown, Shown]:
    columns = {"a": f"{a} accuracy", "b": f"{b} accuracy"}
    table = pairs.rename(columns=columns)
    heads = {columns["a"]: column_heads.percent(a), columns["b"]: column_heads.percent(b)}
    finding = sentence(view, pairs, a, b)
    methods = view.clients()[["method", "algorithm"]].drop_duplicates()
    return (
        Shown(
            figure_cache.figure(paired.figure, pairs, a, b, methods, clients),
            table,
            finding,
            f"Each client: above the line, {a} is better",
            None,
            key="paired",
            name="paired",
            heads=heads,
        ),
        Shown(
            figure_cache.figure(differences.figure, pairs, a, b, methods, clients),
            table,
            finding,
            "Difference by client, sorted",
            None,
            key="differences",
            name="differences",
            heads=heads,
        ),
    )


def _gains(pairs: pd.DataFrame, clients: Sequence[int], a: str, b: str) -> str:
    """``CGPFL K=4 minus Ditto: client 3 +2.10 and client 7 −0.35 points.``"""
    own = pairs.assign(who=paired.who(pairs))[pairs["client"].isin(clients)]
    each = (f"{row.who} {signed_points(row.difference, row.samples)}" for row in own.itertuples())
    return f"{a} minus {b}: {names(each, MAX_NAMED)} points."


def _by_name(view: View) -> dict[str, Method]:
    return {method.name: method for method in view.methods}


def _redrawn(method: Method) -> str:
    """Whether client 3 of one seed is client 3 of the next."""
    splits = {str((run.partition or {}).get("class_counts")) for run in method.runs}
    return " Each seed draws new data: a client number is a position in the partition." if len(splits) > 1 else ""
