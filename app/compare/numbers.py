"""The panel with the table: every rule, every summary, and the downloads."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, get_args

import pandas as pd
import streamlit as st

from app.compare import tables
from app.compare.view import METHOD, View
from app.components import page
from app.state import url_state, widgets
from app.wording import MISSING, names, plain
from engine.core.registry import ALGORITHMS
from engine.core.vocabulary import MODEL_KINDS, ModelKind, When

Rule = tuple[ModelKind, When]
EVERY_RULE: list[Rule] = list(product(MODEL_KINDS, get_args(When)))


@url_state.fragment
def numbers(view: View) -> None:
    page.section("All numbers")
    scope = widgets.switch("Rows", {"view": "As chosen above", "all": "Both models, last and best"}, "rows", "view")
    here, everyone = view.keep("numbers", lambda: rows_of(view, [(view.model, view.when)]))
    table, clients = rows_of(view, EVERY_RULE) if scope == "all" else (here, everyone)
    shown = tables.for_screen(table, clients)
    st.dataframe(
        shown,
        hide_index=True,
        height=page.table_height(len(shown)),
        key="numbers",
        column_config=_columns(list(shown.columns), table, view.tail),
        placeholder=MISSING,
        alt=f"Accuracy and cost of {names(here['method'], 12)}",
    )
    st.caption(about(view, here))
    if view.by == METHOD:
        handbook_links(view)
    files(view, here)


def files(view: View, here: pd.DataFrame) -> None:
    """CSV with every row and number; LaTeX and Markdown with the current selection in percent."""
    words = f"{view.setting}; {view.rule}.{tables.bold_note(here)}"
    save = partial(st.download_button, on_click="ignore")
    with st.container(horizontal=True):
        save("CSV, all rows", lambda: tables.to_csv(rows_of(view, EVERY_RULE)[0]), "comparison.csv", "text/csv")
        save("LaTeX", lambda: tables.to_latex(here, view.tail, words), "comparison.tex", "text/x-tex")
        save("Markdown", lambda: tables.to_markdown(here, view.tail, words), "comparison.md", "text/markdown")


def about(view: View, table: pd.DataFrame) -> str:
    """A caption on how to read the numbers; [tail, clients]."""
    tail = view.tail_words(table)
    return f"In percent, ± sample standard deviation over {view.spread}; {tail}; std and CV over clients (population)."


def rows_of(view: View, rules: Sequence[Rule]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table for some models and rounds, and the clients behind it."""
    everyone, runs = [], []
    for model, when in rules:
        chosen = {"model": model, "when": view.chosen_by(when)}
        everyone.append(view.clients(model, when).assign(**chosen))
        runs.append(view.with_costs(model, when).assign(**chosen))
    table = tables.data(pd.concat(runs, ignore_index=True), is_ranked=view.is_ranked, counted=view.spread)
    return table, pd.concat(everyone, ignore_index=True)


def handbook_links(view: View) -> None:
    with st.container(horizontal=True, key="compare_handbook"):
        st.caption("In the handbook:", width="content")
        for algorithm in dict.fromkeys(method.runs[0].algorithm for method in view.methods):
            if algorithm in ALGORITHMS:
                page.link("handbook", plain(ALGORITHMS.get(algorithm).title), method=algorithm)


def _columns(names_: list[str], table: pd.DataFrame, tail: int) -> dict[str, Any]:
    config = st.column_config
    titles, printed = tables.column_titles(tail), tables.formats(names_, table)
    columns: dict[str, Any] = {
        name: config.NumberColumn(titles[name], format=printed[name])
        if name in printed
        else config.TextColumn(titles[name], pinned=name == "method")
        for name in names_
    }
    return columns | {"bars": config.BarChartColumn(titles["bars"], y_min=0, y_max=100, width=128)}
