"""The selected runs are in the address, so that a selection is a link."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from app import wording
from app.data.comparison import run_name
from app.state import address, browser
from storage import RunRecord

KEY, TURN = "library_runs", "library_runs.turn"


def choose(run_ids: Sequence[int]) -> None:
    """Select runs from outside the table, which is then redrawn with their rows selected."""
    st.session_state[TURN] = turn() + 1
    _write(run_ids)


def turn() -> int:
    """Rises whenever the selection changes outside the table."""
    return int(st.session_state.get(TURN, 0))


def selected_rows(table: pd.DataFrame) -> list[int]:
    """The positions of the rows whose runs are all selected."""
    chosen = set(address.ids("runs"))
    return [i for i, own in enumerate(table["runs"]) if chosen.issuperset(own)]


def _write(run_ids: Sequence[int]) -> None:
    browser.put(runs=",".join(map(str, run_ids)) or None)


def take_rows(key: str, table: pd.DataFrame) -> None:
    """Select the runs of the selected rows; selected runs that the table does not show stay selected."""
    browser.catch_up()
    if not key.endswith(f".{turn()}"):  # the browser does not know yet that there is another one
        return
    ids = [run_id for own in table["runs"] for run_id in own]
    rows = st.session_state[key]["selection"]["rows"]
    picked = [run_id for own in table["runs"].iloc[rows] for run_id in own]
    _write([*(run_id for run_id in address.ids("runs") if run_id not in ids), *picked])


def panel(runs: Mapping[int, RunRecord], listed: Sequence[int]) -> list[RunRecord]:
    """The selected runs, ``listed`` or not."""
    chosen = [run_id for run_id in address.ids("runs") if run_id in runs]
    browser.show(KEY, chosen)
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_choice"):
        st.multiselect(
            "Selected runs",
            list(dict.fromkeys([*chosen, *listed])),
            key=KEY,
            on_change=browser.pressed,
            args=(KEY, lambda: choose(st.session_state[KEY])),
            placeholder="Select rows in the table, or choose here",
            format_func=lambda run_id: f"{run_id} · {run_name(runs[run_id])}",
        )
        if set(listed) - set(chosen):
            st.button(f"Select all {wording.count(len(listed))}", key="choose_all", on_click=choose, args=(listed,))
    if hidden := set(chosen) - set(listed):
        st.caption(f"{wording.plural(len(hidden), 'selected run is', 'selected runs are')} not in the table above.")
    return [runs[run_id] for run_id in chosen]
