"""Printed numbers beside ours: one sentence, one experiment and measure as a chart, every cell as a table."""

from typing import Any

import pandas as pd
import streamlit as st

from app.charts import beside_paper
from app.components import page, terms
from app.state import url_state
from app.wording import capital, plural

READING = "Ours: last round, mean over seeds ± sample standard deviation. Differences in points."


def beside(table: pd.DataFrame, settings: dict[str, str], scale: str, name: str) -> None:
    """``table`` as ``beside_paper.data`` gives it; ``settings``: an experiment's set-up in a line."""
    finding = beside_paper.finding(table, scale)
    st.html(f'<p class="lead">{terms.marked(finding)}</p>')
    if table["ours"].notna().any():
        _dots(table, settings, finding, name)
    _cells(table, name)


def _dots(table: pd.DataFrame, settings: dict[str, str], finding: str, name: str) -> None:
    """One experiment, by default the first with results."""
    some = table.dropna(subset=["ours"])
    experiments = {experiment: experiment for experiment in dict.fromkeys(table["experiment"])}
    with st.container(horizontal=True, vertical_alignment="bottom", key=f"beside_choice_{name}"):
        of = url_state.pick("Experiment", experiments, "paper_of", some["experiment"].iloc[0])
        own = table[table["experiment"] == of]
        measures = {m: capital(beside_paper.MEASURES[m]) for m in dict.fromkeys(own["measure"])}
        first = next(iter(measures))
        measure = url_state.switch("Measure", measures, "paper_measure", first) if len(measures) > 1 else first
    shown = own[own["measure"] == measure].reset_index(drop=True)
    page.chart(
        beside_paper.figure(shown),
        beside_paper.for_screen(shown),
        key=f"beside_{name}",
        alt=finding,
        name=f"{name} beside the paper",
        caption=f"{settings[of]}. Ring: the paper; filled: ours, ± over seeds.",
    )


def _cells(table: pd.DataFrame, name: str) -> None:
    number = st.column_config.NumberColumn
    columns: dict[str, Any] = {
        "experiment": "Experiment",
        "table": "Table",
        "method": "Method",
        "model": "Model",
        "measure": "Measure",
        "paper": number("Paper, %", format="%.2f"),
        "ours": number("Ours, %", format="%.2f"),
        "pm": number("±", format="%.2f"),
        "difference": number("Difference", format="%+.2f"),
        "seeds": "Seeds",
    }
    st.dataframe(
        beside_paper.for_screen(table),
        hide_index=True,
        key=f"beside_cells_{name}",
        column_config=columns,
        placeholder="–",
        alt="Every printed number beside ours",
    )
    unread = int(table["paper"].isna().sum())
    caption = READING + (f" Illegible in the source: {plural(unread, 'cell')}." if unread else "")
    terms.caption(caption)
    page.files(beside_paper.for_screen(table), key=f"beside_cells_{name}", name=f"{name} all cells", caption=caption)
