"""The selected runs are in the address, so that a selection is a link."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from app import wording
from app.data.comparison import run_name
from app.state import url_state, widgets
from storage import RunRecord

KEY, TURN = "library_runs", "library_runs.turn"


def choose(run_ids: Sequence[int]) -> None:
    """Select runs from outside the table, which is then redrawn with their rows selected."""
    st.session_state[TURN] = turn() + 1
    _write(run_ids)


def turn() -> int:
    """A number that increases whenever the selection changes outside the table."""
    return int(st.session_state.get(TURN, 0))


def selected_rows(table: pd.DataFrame) -> list[int]:
    """The positions of the rows whose runs are all selected."""
    chosen = set(url_state.ids("runs"))
    return [i for i, own in enumerate(table["runs"]) if chosen.issuperset(own)]


def _write(run_ids: Sequence[int]) -> None:
    url_state.choose(runs=",".join(map(str, run_ids)) or None)


def take_rows(key: str, table: pd.DataFrame) -> None:
    """Select the runs of the selected rows.

    Selected runs that the table does not show stay selected, and so do the runs of rows that are selected in part.
    """
    if not key.endswith(f".{turn()}"):  # the table has been replaced since
        return
    rows, before = st.session_state[key]["selection"]["rows"], set(selected_rows(table))
    picked = [run_id for own in table["runs"].iloc[rows] for run_id in own]
    dropped = {run_id for i in before.difference(rows) for run_id in table["runs"].iloc[i]}
    _write([*(run_id for run_id in url_state.ids("runs") if run_id not in {*dropped, *picked}), *picked])


def panel(runs: Mapping[int, RunRecord], listed: Sequence[int]) -> list[RunRecord]:
    """The selected runs, ``listed`` or not."""
    chosen = [run_id for run_id in url_state.ids("runs") if run_id in runs]
    titles = {run_id: f"{run_id} · {run_name(runs[run_id])}" for run_id in dict.fromkeys([*chosen, *listed])}
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_choice"):
        st.multiselect(
            "Selected runs",
            list(titles),
            format_func=titles.__getitem__,
            placeholder="Select rows in the table, or choose here",
            key=widgets.key(KEY, chosen, choose, titles),
        )
        if set(listed) - set(chosen):
            st.button(f"Select all {wording.count(len(listed))}", key="choose_all", on_click=choose, args=(listed,))
    if hidden := set(chosen) - set(listed):
        st.caption(f"{wording.plural(len(hidden), 'selected run is', 'selected runs are')} not in the table above.")
    return [runs[run_id] for run_id in chosen]
