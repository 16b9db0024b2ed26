"""The queue: running and waiting runs in the order in which they start, and how to change it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from app import wording
from app.charts.plot import palette
from app.components import page
from app.data import forecast, queries
from app.data.comparison import method_name
from app.data.glossary import definition
from app.live import live_feed, queue_choice
from app.state import url_state
from app.state.fragments import fragment
from storage import RunRecord

MAX_ROWS = 200
REFRESH_S = 5.0
COLUMNS = ("place", "run", "method", "seed", "experiment", "rounds", "priority", "starts")


@dataclass(frozen=True)
class Turns:
    """Running runs, waiting runs in the order in which they start, and paused runs."""

    running: Sequence[RunRecord]
    waiting: Sequence[RunRecord]
    paused: Sequence[RunRecord]

    @property
    def runs(self) -> list[RunRecord]:
        return [*self.running, *self.waiting, *self.paused]


def up_next(shown: Sequence[RunRecord] = ()) -> None:
    """Draw the queue, unless no run waits and all running ones are ``shown``."""
    turns = read()
    outside = {run.id for run in turns.running}.difference(run.id for run in shown)
    if palette.is_presenting() or not (turns.waiting or turns.paused or outside):
        return
    page.section("Up next")
    fragment(board, run_every=REFRESH_S if turns.running or turns.waiting else None)()
    queue_choice.controls(turns.runs)


def read() -> Turns:
    running, paused = (queries.runs(statuses=[status], include_archived=True) for status in ("running", "paused"))
    return Turns(running, queries.store().queue.waiting(), paused)


def board() -> None:
    """Redrawn every few seconds; the controls are outside of it and keep their state."""
    turns = read()
    expected = forecast.of_queue(queries.store(), turns.waiting)
    st.caption(wording.plain(summary(turns, expected)))
    if turns.runs:
        listing(data(turns, expected)[:MAX_ROWS])
    if len(turns.runs) > MAX_ROWS:
        st.caption(f"{wording.count(len(turns.runs) - MAX_ROWS)} more in the queue.")
    if queue_choice.has_changed():
        st.rerun()


def data(turns: Turns, expected: forecast.Forecast) -> pd.DataFrame:
    """A row per run."""
    rows = [_row(run, "now", live_feed.status_of(run)) for run in turns.running]
    rows += [_row(run, str(place), _start(expected.starts_s.get(run.id))) for place, run in enumerate(turns.waiting, 1)]
    return pd.DataFrame([*rows, *(_row(run, "", "paused") for run in turns.paused)], columns=list(COLUMNS))


def summary(turns: Turns, expected: forecast.Forecast) -> str:
    """``2 running, 28 queued, 3 paused. Estimated time left: 2 h 05 min.``"""
    groups = {"running": turns.running, "queued": turns.waiting, "paused": turns.paused}
    counts = ", ".join(f"{wording.count(len(runs))} {name}" for name, runs in groups.items() if runs)
    end = f" Estimated time left: {wording.about(expected.end_s)}." if expected.end_s else ""
    return f"{counts or 'The queue is empty'}.{end}"


def listing(table: pd.DataFrame) -> None:
    """Selected rows select their runs. Another order, or a selection made elsewhere, makes a new table."""
    chosen = url_state.ids(queue_choice.CHOSEN)
    key = f"up_next.{hash(tuple(table['run']))}.{queue_choice.turn()}"
    rows = [i for i, run_id in enumerate(table["run"]) if run_id in chosen]
    st.dataframe(
        table,
        hide_index=True,
        key=key,
        on_select=lambda: queue_choice.take_rows(key, table["run"].tolist()),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": rows}},
        height=page.table_height(len(table), 390),
        placeholder=wording.MISSING,
        column_config=_columns(),
        alt="Runs in the order in which they will start",
    )


def _row(run: RunRecord, place: str, starts: str) -> dict[str, object]:
    return {
        "place": place,
        "run": run.id,
        "method": method_name(run.label, run.algorithm),
        "seed": run.seed,
        "experiment": run.experiment_name,
        "rounds": f"{max(run.round, 0)} of {run.rounds}",
        "priority": wording.priority(run.priority),
        "starts": starts,
    }


def _start(seconds: float | None) -> str:
    if seconds is None:
        return wording.MISSING
    return "now" if seconds < 1 else f"in {wording.about(seconds)}"


def _columns() -> dict[str, Any]:
    return {
        "place": st.column_config.TextColumn("Position", width="small"),
        "run": st.column_config.NumberColumn("Run", width="small"),
        "method": "Method",
        "seed": "Seed",
        "experiment": "Experiment",
        "rounds": st.column_config.TextColumn("Rounds", help="Completed rounds are kept"),
        "priority": st.column_config.TextColumn("Priority", help=definition("Priority")),
        "starts": st.column_config.TextColumn(
            "Starts", help="Estimated from the pace of runs of the same method, else of the same experiment"
        ),
    }
