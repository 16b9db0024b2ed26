"""The panel with the table: every rule, every summary, and the files to take away."""

from itertools import product
from typing import Any, get_args

import pandas as pd
import streamlit as st

from app import address, queries, tables
from app.compare.view import View
from app.components import page
from app.wording import kicker, names, plain
from engine.registry import ALGORITHMS


@st.fragment
def numbers(view: View, clients: pd.DataFrame) -> None:
    st.header("What exactly are the numbers?", anchor=False)
    series = view.series()
    everyone, runs = [], []
    for model, when in product(get_args(queries.Model), get_args(queries.When)):
        own = view.clients(model, when)
        everyone.append(own.assign(model=model, when=when))
        runs.append(view.with_costs(own, series, model, when).assign(model=model, when=when))
    table = tables.data(pd.concat(runs, ignore_index=True))
    here = table[(table["model"] == view.model) & (table["when"] == view.when)]
    scope = address.switch("Rows", {"view": "As chosen above", "all": "Both models, last and best"}, "rows", "view")
    shown = tables.for_screen(here if scope == "view" else table, pd.concat(everyone, ignore_index=True))
    st.dataframe(
        shown, hide_index=True, key="numbers", column_config=_columns(list(shown.columns), view.tail),
        alt=f"Accuracy and cost of {names(here['method'], 12)}",
    )  # fmt: skip
    st.caption(
        f"Percent, ± sample deviation over seeds; {view.tail_words(here)}; std and CV over clients (population)."
    )
    with st.container(horizontal=True, key="compare_handbook"):
        st.caption("In the handbook:")
        for algorithm in dict.fromkeys(method.runs[0].algorithm for method in view.methods):
            if algorithm in ALGORITHMS:
                page.link("handbook", plain(ALGORITHMS.get(algorithm).title), method=algorithm)
    latex = tables.to_latex(here, view.tail, f"{kicker(view.methods[0].runs[0])}; {view.rule}.")
    with st.container(horizontal=True):
        st.download_button("CSV, all rows", tables.to_csv(table), "comparison.csv", "text/csv", on_click="ignore")
        st.download_button("LaTeX", latex, "comparison.tex", "text/x-tex", on_click="ignore")


def _columns(names_: list[str], tail: int) -> dict[str, Any]:
    config = st.column_config
    titles, printed = tables.column_titles(tail), tables.formats(names_)
    columns: dict[str, Any] = {
        name: config.NumberColumn(titles[name], format=printed[name])
        if name in printed
        else config.TextColumn(titles[name], pinned=name == "method")
        for name in names_
    }
    return columns | {"bars": config.BarChartColumn(titles["bars"], y_min=0, y_max=100)}
