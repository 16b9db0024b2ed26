"""The table of the runs that match the filters. Selected rows select their runs."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app import wording
from app.components import page
from app.data import run_table
from app.data.glossary import definition
from app.library import filters
from app.library.chosen import selected_rows, take_rows, turn
from app.state import widgets
from storage import RunRecord

ROWS = 500  # of one page of the table
HIDDEN = ("runs", "experiment_id")
WRITTEN = ("owner", "tags", "note")  # shown if a run of the table has one


def panel(passing: Sequence[RunRecord], of: int) -> list[int]:
    """Returns the ids of the runs that it shows."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_order"):
        group = widgets.pick("Group by", run_table.GROUPS, "group", "none")
        sort = widgets.pick("Sort by", run_table.SORTS, "sort", "newest")
        examples = {run.id for run in passing if run.example} if sort == "newest" else set[int]()
        found = f"{wording.plural(len(passing), 'run')}" + (f" of {wording.count(of)}" if of > len(passing) else "")
        are_both = group in ("none", "experiment") and 0 < len(examples) < len(passing)
        st.caption(f"{found}; {wording.plural(len(examples), 'example')} at the end" if are_both else found)
    if not passing:
        nothing(of)
        return []
    table = examples_last(run_table.ordered(run_table.data(passing), sort), examples)
    if group != "none":
        table = run_table.grouped(table, group, sort)
    table = paged(table)
    rows(table, f"{group}.{sort}")
    return [run_id for ids in table["runs"] for run_id in ids]


def examples_last(table: pd.DataFrame, examples: Collection[int]) -> pd.DataFrame:
    """Moves the rows of these runs to the end: loading an example does not push away the reader's own runs."""
    is_example = table["run"].isin(examples)
    return pd.concat([table[~is_example], table[is_example]], ignore_index=True)


def nothing(of: int) -> None:
    """Explain why no run is listed, and offer to clear the filters."""
    with st.container(horizontal=True, vertical_alignment="center", key="library_nothing"):
        st.write(f"No runs match these filters; {wording.count(of)} without them.")
        st.button("Clear filters", key="clear", on_click=filters.clear)


def paged(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the current page, at most ROWS."""
    if len(table) <= ROWS:
        return table
    pages = -(-len(table) // ROWS)
    at = widgets.control("page", 1, lambda text: int(text) if text in map(str, range(1, pages + 1)) else None, str)
    st.pagination(pages, key=at.key)
    first = (at.value - 1) * ROWS
    left = len(table) - min(len(table), first + ROWS)
    st.caption(f"Rows {first + 1} to {len(table) - left}" + (f", {wording.count(left)} more" if left else ""))
    return table.iloc[first : first + ROWS]


def rows(table: pd.DataFrame, order: str) -> None:
    key = f"library_table.{hash((order, str(table['runs'].tolist())))}.{turn()}"  # other rows, another selection
    st.dataframe(
        table,
        hide_index=True,
        key=key,
        placeholder=wording.MISSING,
        height=page.table_height(len(table)),
        on_select=lambda: take_rows(key, table),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": selected_rows(table)}},
        column_config=columns(),
        column_order=[c for c in table if c not in HIDDEN and (c not in WRITTEN or table[c].any())],
        alt=f"{wording.plural(len(table), 'row')} of runs",
    )


def columns() -> dict[str, Any]:
    accuracy: dict[str, Any] = {"format": "%.1f", "help": "Percent, personalized models, last round"}
    lowest = {**accuracy, "help": f"{accuracy['help']}. {definition('Lowest 5 %')}"}
    weighted = {**accuracy, "help": f"Percent. {definition('Weighted mean')}"}
    best = f"Percent, weighted mean in the best round. {definition('Best round')}"
    return {
        "run": st.column_config.NumberColumn("Run", width="small"),
        "progress": st.column_config.ProgressColumn("Rounds", format="%.0f %%", min_value=0, max_value=100),
        "mean": st.column_config.NumberColumn("Mean, %", **accuracy),
        "std": st.column_config.NumberColumn(
            "± over runs", format="%.1f", help="Sample standard deviation of the runs' means"
        ),
        "lowest5": st.column_config.NumberColumn("Lowest 5 %, %", **lowest),
        "weighted mean": st.column_config.NumberColumn("Weighted mean, %", **weighted),
        "best": st.column_config.NumberColumn("Best weighted mean, %", format="%.1f", help=best),
        "number": st.column_config.NumberColumn("Runs", width="small"),
        "queued": times("Queued"),
        **{
            name: name.capitalize()
            for name in ("experiment", "method", "methods", "seed", "seeds", "status", "split", "done", "note", "owner")
        },
        "tags": st.column_config.TextColumn("Tags", width="medium"),
        "dataset": "Data set",
        "datasets": "Data sets",
    }


def times(title: str) -> Any:
    """A column of times in the reader's time zone. Times in text, in logs and in files are UTC, and say so."""
    zone = str(filters.zone())
    return st.column_config.DatetimeColumn(
        f"{title} (UTC)" if zone == "UTC" else title,
        help=f"In the time zone {zone}",
        format="D MMM YYYY, HH:mm",
        timezone=zone,
    )
