"""Printed numbers and ours: one sentence, one experiment and measure as a chart, every cell as a table."""

from typing import Any

import pandas as pd
import streamlit as st

from app.charts import paper_comparison
from app.components import page, terms
from app.components.shown import Shown
from app.state.choice import Choice
from app.wording import capital, plural

READING = "Ours: last round, mean over seeds ± sample standard deviation. Differences in points."


def compared_numbers(table: pd.DataFrame, settings: dict[str, str], scale: str, name: str) -> None:
    """``table`` as ``paper_comparison.data`` gives it; ``settings``: an experiment's set-up in a line."""
    st.html(f'<p class="lead">{terms.marked(paper_comparison.finding(table, scale))}</p>')
    if table["ours"].notna().any():
        experiments = experiment_of(table)
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"beside_choice_{name}"):
            experiment = experiments.pick()
            measures = measure_of(table, experiment)
            measure = measures.switch() if len(measures.titles) > 1 else measures.default
        page.show(dots(table, settings, scale, name, experiment, measure))
    _cells(table, name)


def experiment_of(table: pd.DataFrame) -> Choice:
    """The control for the experiment, by default the first with results."""
    some = table.dropna(subset=["ours"])
    experiments = {experiment: experiment for experiment in dict.fromkeys(table["experiment"])}
    return Choice("Experiment", experiments, "paper_of", some["experiment"].iloc[0])


def measure_of(table: pd.DataFrame, experiment: str) -> Choice:
    measures = dict.fromkeys(table.loc[table["experiment"] == experiment, "measure"])
    return Choice(
        "Measure", {m: capital(paper_comparison.MEASURES[m]) for m in measures}, "paper_measure", next(iter(measures))
    )


def dots(table: pd.DataFrame, settings: dict[str, str], scale: str, name: str, experiment: str, measure: str) -> Shown:
    """One experiment and measure."""
    is_shown = (table["experiment"] == experiment) & (table["measure"] == measure)
    shown = table[is_shown].reset_index(drop=True)
    return Shown(
        paper_comparison.figure(shown),
        paper_comparison.for_screen(shown),
        paper_comparison.finding(table, scale),
        None,
        f"{settings[experiment]}. Ring: the paper; filled: ours, ± over seeds.",
        key=f"beside_{name}",
        name=f"{name} and the paper",
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
        paper_comparison.for_screen(table),
        hide_index=True,
        key=f"beside_cells_{name}",
        column_config=columns,
        placeholder="–",
        alt="Every printed number and ours",
    )
    unread = int(table["paper"].isna().sum())
    caption = READING + (f" Illegible in the source: {plural(unread, 'cell')}." if unread else "")
    terms.caption(caption)
    page.files(
        paper_comparison.for_screen(table), key=f"beside_cells_{name}", name=f"{name} all cells", caption=caption
    )
