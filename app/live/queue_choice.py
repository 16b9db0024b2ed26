"""The selected runs of the queue, which are in the address, and actions on them or on all."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.data.comparison import run_name
from app.live import live_feed
from app.live.requests import MOVES, cancel_question, perform
from app.state import url_state, widgets
from storage import RunRecord

CHOSEN = "queued"  # in the address
NAMES = "queue_chosen"
_TURN, _CHANGED = "queue_choice.turn", "queue_choice.changed"


def controls(runs: Sequence[RunRecord]) -> None:
    """The selection by name, for the keyboard and for runs beyond the table; then the buttons."""
    by_id = {run.id: run for run in runs}
    chosen = [run_id for run_id in url_state.ids(CHOSEN) if run_id in by_id]
    titles = {run_id: f"{run_name(run)} · run {run_id}" for run_id, run in by_id.items()}
    st.multiselect(
        "Selected runs",
        list(by_id),
        format_func=titles.__getitem__,
        placeholder="Select rows in the table, or choose here",
        key=widgets.key(NAMES, chosen, _take_names, titles),
    )
    allowed = permits.theirs("change", runs)
    if chosen and (reason := permits.why_not("change", [by_id[run_id] for run_id in chosen])):
        st.caption(wording.plain(reason))
    elif chosen:
        change([by_id[run_id] for run_id in chosen])
    else:
        change_all([run for run in runs if run.id in allowed])


def change(chosen: Sequence[RunRecord]) -> None:
    """Move, prioritize, pause, resume or cancel the selected runs."""
    ids = [run.id for run in chosen]
    with st.container(horizontal=True, vertical_alignment="bottom", key="queue_actions"):
        if any(run.status == "queued" for run in chosen):
            for to in MOVES:
                st.button(wording.capital(to), key=f"queue_{to}", on_click=perform, args=(to, ids))
        _priority_control(chosen)
        _pause_buttons(chosen, "Pause", "Resume")
        _cancel_button(chosen, "Cancel")


def change_all(runs: Sequence[RunRecord]) -> None:
    """Buttons to pause, resume or cancel all runs of all experiments, shown without a selection."""
    with st.container(horizontal=True, vertical_alignment="center", key="queue_all"):
        _pause_buttons(runs, "Pause everything", "Resume everything")
        _cancel_button(runs, "Cancel everything")


def _priority_control(chosen: Sequence[RunRecord]) -> None:
    """A value is selected if all runs share it."""
    given = {wording.priority(run.priority) for run in chosen}
    shown, ids = given.pop() if len(given) == 1 else None, [run.id for run in chosen]

    def prioritize(name: str | None) -> None:
        if name:
            perform(name, ids)

    st.segmented_control(
        "Priority",
        list(wording.PRIORITIES),
        format_func=wording.capital,
        key=widgets.key("queue_priority", shown, prioritize),
    )


def _pause_buttons(runs: Sequence[RunRecord], pause: str, resume: str) -> None:
    for action, label in (("pause", pause), ("resume", resume)):
        if ids := [run.id for run in runs if action in live_feed.actions(run)]:
            st.button(label, key=f"queue_{action}", on_click=perform, args=(action, ids))


def _cancel_button(runs: Sequence[RunRecord], label: str) -> None:
    if found := [run for run in runs if "cancel" in live_feed.actions(run)]:
        training = sum(run.status == "running" for run in found)
        cancel_question(label, [run.id for run in found], training, "queue_cancel")


def take_rows(key: str, shown: Sequence[int]) -> None:
    """Select the runs of the selected rows. Selected runs that the table does not show stay selected."""
    if not key.endswith(f".{turn()}"):  # the table has been replaced since
        return
    hidden = [run_id for run_id in url_state.ids(CHOSEN) if run_id not in shown]
    _choose([*hidden, *(shown[row] for row in st.session_state[key]["selection"]["rows"] if row < len(shown))])
    st.session_state[_CHANGED] = True


def has_changed() -> bool:
    """Whether rows were selected since the last call."""
    return bool(st.session_state.pop(_CHANGED, False))


def turn() -> int:
    """Rises with each selection made outside the table, which must then be redrawn with other rows selected."""
    return int(st.session_state.get(_TURN, 0))


def _take_names(run_ids: Sequence[int]) -> None:
    st.session_state[_TURN] = turn() + 1
    _choose(run_ids)


def _choose(run_ids: Sequence[int]) -> None:
    url_state.choose(**{CHOSEN: ",".join(map(str, run_ids)) or None})
