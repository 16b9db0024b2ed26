"""What waits, in the order in which it will start; and moving, pausing and cancelling it, one run or many."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app import address, palette, queries, wording
from app.comparison import method_name, run_name
from app.components import page
from app.live import forecast
from app.live.requests import cancel_question, perform, refusal
from storage import RunRecord

MOST_ROWS = 200
REFRESH_S = 5.0
MOVES = {"first": "First", "earlier": "Earlier", "later": "Later", "last": "Last"}
CHOSEN = "queued"  # in the address
COLUMNS = ("place", "run", "method", "seed", "experiment", "rounds", "priority", "starts")


def up_next() -> None:
    """Drawn again every few seconds while something waits; nothing where nothing does."""
    if palette.is_presenting() or queries.problem():
        return
    counts = queries.counts()
    if not (counts.get("queued") or counts.get("paused")):
        return
    page.section("What is up next?")
    st.fragment(queue, run_every=REFRESH_S if counts.get("queued") else None)()


def queue() -> None:
    """The table, and what to do with the chosen runs or with all."""
    refusal()
    waiting, paused = queries.store().queue.waiting(), queries.runs(statuses=["paused"], include_archived=True)
    if not waiting and not paused:
        st.caption("Nothing waits any more.")
        return
    expected = forecast.of_queue(queries.store(), waiting)
    st.caption(wording.plain(summary(len(waiting), len(paused), expected)))
    runs = {run.id: run for run in [*waiting, *paused]}
    chosen = [run_id for run_id in address.ids(CHOSEN) if run_id in runs]
    listing(data(waiting, paused, expected)[:MOST_ROWS], chosen)
    if len(runs) > MOST_ROWS:
        st.caption(f"{wording.count(len(runs) - MOST_ROWS)} more wait behind these.")
    choose(runs, chosen)
    if chosen:
        change([runs[run_id] for run_id in chosen])
    else:
        change_all(waiting, paused)


def data(waiting: Sequence[RunRecord], paused: Sequence[RunRecord], expected: forecast.Forecast) -> pd.DataFrame:
    """A row a run in the order of their turns; those that are paused have none, and come last."""
    rows = [_row(run, str(place), _start(expected.starts_s.get(run.id))) for place, run in enumerate(waiting, 1)]
    return pd.DataFrame([*rows, *(_row(run, "", "paused") for run in paused)], columns=list(COLUMNS))


def summary(waiting: int, paused: int, expected: forecast.Forecast) -> str:
    """``28 runs wait, 3 are paused. All will be done in about 2 h 05 min.``"""
    said = [f"{wording.plural(waiting, 'run waits', 'runs wait')}"] if waiting else []
    said += [f"{wording.count(paused)} {'is' if paused == 1 else 'are'} paused"] if paused else []
    if waiting and expected.end_s is not None:
        return f"{', '.join(said)}. All that waits or trains will be done in about {wording.duration(expected.end_s)}."
    return f"{', '.join(said)}."


def listing(table: pd.DataFrame, chosen: Sequence[int]) -> None:
    """Rows that are ticked are the chosen runs. Another order or a choice made elsewhere makes another table."""
    key = f"up_next.{hash(tuple(table['run']))}.{st.session_state.get('up_next.turn', 0)}"
    rows = [i for i, run_id in enumerate(table["run"]) if run_id in chosen]
    st.dataframe(
        table, hide_index=True, key=key, on_select=lambda: _take_rows(key, table), selection_mode="multi-row",
        selection_default={"selection": {"rows": rows}}, height=min(38 + 35 * len(table), 390),
        placeholder=wording.MISSING, column_config=_columns(), alt="Runs in the order in which they will start",
    )  # fmt: skip


def choose(runs: dict[int, RunRecord], chosen: Sequence[int]) -> None:
    """The same choice by name, for the keyboard and for runs beyond the table."""
    st.session_state["up_next_chosen"] = list(chosen)
    st.multiselect(
        "Chosen runs", list(runs), key="up_next_chosen", placeholder="tick rows of the table, or choose here",
        format_func=lambda run_id: f"{run_name(runs[run_id])} · run {run_id}",
        on_change=lambda: _choose(st.session_state["up_next_chosen"], elsewhere=True),
    )  # fmt: skip


def change(chosen: Sequence[RunRecord]) -> None:
    """Move, hurry, pause, resume or cancel those that are chosen."""
    ids = [run.id for run in chosen]
    with st.container(horizontal=True, vertical_alignment="bottom", key="up_next_actions"):
        if any(run.status == "queued" for run in chosen):
            for to, label in MOVES.items():
                st.button(label, key=f"up_next_{to}", on_click=perform, args=(to, ids))
        _priority_control(chosen)
        _pause_buttons(chosen, "Pause", "Resume")
        cancel_question("Cancel", ids, 0, "up_next_cancel")


def change_all(waiting: Sequence[RunRecord], paused: Sequence[RunRecord]) -> None:
    """Nothing is chosen: pause, resume or cancel all of it, whatever the experiment."""
    with st.container(horizontal=True, vertical_alignment="center", key="up_next_all"):
        _pause_buttons([*waiting, *paused], "Pause all that wait", "Resume all that are paused")
        cancel_question("Cancel all of these", [run.id for run in [*waiting, *paused]], 0, "up_next_cancel_all")


def _priority_control(chosen: Sequence[RunRecord]) -> None:
    """Pressed where all have the same."""
    names = {wording.priority(run.priority) for run in chosen}
    st.session_state["up_next_priority"] = names.pop() if len(names) == 1 else None
    ids = [run.id for run in chosen]

    def take() -> None:
        if name := st.session_state["up_next_priority"]:
            perform(name, ids)

    st.segmented_control("Priority", list(wording.PRIORITIES), key="up_next_priority", on_change=take)


def _pause_buttons(runs: Sequence[RunRecord], pause: str, resume: str) -> None:
    for status, action, label in (("queued", "pause", pause), ("paused", "resume", resume)):
        if ids := [run.id for run in runs if run.status == status]:
            st.button(label, key=f"up_next_{action}", on_click=perform, args=(action, ids))


def _row(run: RunRecord, place: str, starts: str) -> dict[str, object]:
    return {
        "place": place, "run": run.id, "method": method_name(run.label, run.algorithm), "seed": run.seed,
        "experiment": run.experiment_name, "rounds": f"{max(run.round, 0)} of {run.rounds}",
        "priority": wording.priority(run.priority), "starts": starts,
    }  # fmt: skip


def _start(seconds: float | None) -> str:
    if seconds is None:
        return wording.MISSING
    return "now" if seconds < 1 else f"in {wording.duration(seconds)}"


def _take_rows(key: str, table: pd.DataFrame) -> None:
    """Chosen runs that the table does not show stay chosen."""
    shown = table["run"].tolist()
    hidden = [run_id for run_id in address.ids(CHOSEN) if run_id not in shown]
    _choose([*hidden, *(shown[row] for row in st.session_state[key]["selection"]["rows"] if row < len(shown))])


def _choose(run_ids: Sequence[int], elsewhere: bool = False) -> None:
    """``elsewhere`` than in the table, which then has to be drawn with other rows ticked."""
    if elsewhere:
        st.session_state["up_next.turn"] = st.session_state.get("up_next.turn", 0) + 1
    if run_ids:
        st.query_params[CHOSEN] = ",".join(map(str, run_ids))
    else:
        st.query_params.pop(CHOSEN, None)


def _columns() -> dict[str, object]:
    return {
        "place": st.column_config.TextColumn("Place", width="small"),
        "run": st.column_config.NumberColumn("Run", width="small"),
        "method": "Method", "seed": "Seed", "experiment": "Experiment",
        "rounds": st.column_config.TextColumn("Rounds", help="Those it has already are kept"),
        "priority": st.column_config.TextColumn("Priority", help="High comes before normal, normal before low"),
        "starts": st.column_config.TextColumn(
            "Starts", help="By the pace of runs of its method in its experiment, else of its experiment; an estimate"
        ),
    }  # fmt: skip
