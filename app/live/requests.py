"""Actions on runs, and the error if one could not be done."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.access.permits import Adds
from app.data import allowed_paths, queries
from app.live import live_feed
from app.state import url_state
from storage import RETRIABLE, RunRecord, StorageError

MOVES = ("first", "earlier", "later", "last")
OUT_OF_DATE = "Nothing was changed, because this page was out of date. It now shows the current state of the runs."
_REFUSED = "live.refused"
_LOGGED = {to: f"Move {to} in the queue" for to in MOVES}
_LOGGED |= {name: f"Set {name} priority" for name in wording.PRIORITIES}


def perform(action: str, run_ids: Sequence[int]) -> None:
    """Perform the action; ``refusal`` shows an error when the page is redrawn."""
    try:
        _perform(action, run_ids)
    except StorageError as error:
        st.session_state[_REFUSED] = str(error)


def refusal() -> None:
    """Show why the last action could not be done."""
    if reason := st.session_state.pop(_REFUSED, None):
        st.error(wording.plain(reason))


def cancel_question(label: str, run_ids: Sequence[int], training: int, key: str) -> None:
    """A button that cancels several runs after a confirmation: cancelled runs can't be resumed."""
    with st.popover(label, key=key):
        kept = f" {wording.plural(training, 'is training', 'are training')}; completed rounds are kept."
        st.write(
            f"Cancel {wording.plural(len(run_ids), 'run')}?{kept if training else ''} "
            "Cancelled runs can't be resumed; pause them to continue later."
        )
        st.button(
            f"Cancel {wording.plural(len(run_ids), 'run')}",
            key=f"{key}_now",
            type="primary",
            on_click=perform,
            args=("cancel", list(run_ids)),
        )


def _perform(action: str, run_ids: Sequence[int]) -> None:
    """Perform the action on the runs that it still fits: they may have changed since the page was drawn."""
    runs = [run for run in queries.runs(run_ids=run_ids, include_archived=True) if _fits(action, run)]
    if not runs:
        st.session_state[_REFUSED] = OUT_OF_DATE
    again: dict[int, int] = {}
    if action == "retry":
        runs = _readable(runs)
        again = live_feed.retried(queries.store(), runs)  # a second press queues no second run
    ids = [run.id for run in runs if run.id not in again]
    adds: Adds = "runs" if action == "retry" else "nothing"
    did = _LOGGED.get(action, action.capitalize())
    with permits.allow("change", queries.store(), did, run_ids=ids or run_ids, adds=adds):
        new = _do(action, ids) if ids else []
    if action == "retry":
        _show_again([run.id for run in runs], sorted({*again.values(), *new}))


def _fits(action: str, run: RunRecord) -> bool:
    """Whether the action would change the run."""
    if action in wording.PRIORITIES:
        return not run.is_finished and run.priority != wording.PRIORITIES[action]
    return run.status == "queued" if action in MOVES else action in live_feed.actions(run)


def _readable(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs whose data may be read here. If some may not, the reason is shown."""
    refused = {run.id: reason for run in runs if (reason := allowed_paths.problem_of(run))}
    if refused:
        st.session_state[_REFUSED] = next(iter(refused.values()))
    return [run for run in runs if run.id not in refused]


def _do(action: str, run_ids: Sequence[int]) -> list[int]:
    """Returns the ids of new runs."""
    queue = queries.store().queue
    match action:
        case "pause" | "cancel":
            queue.request(run_ids, action)
        case "resume":
            queue.resume(run_ids)
        case "retry":
            return [run.id for run in queue.retry(run_ids, RETRIABLE)]
        case "first" | "earlier" | "later" | "last":
            queue.move(run_ids, action)
        case "high" | "normal" | "low":
            queue.prioritize(run_ids, wording.PRIORITIES[action])
    return []


def _show_again(run_ids: Sequence[int], again: Sequence[int]) -> None:
    """If the address names runs, replace the old ones with the new ones."""
    if shown := url_state.ids("runs"):
        kept = [run_id for run_id in shown if run_id not in run_ids]
        url_state.choose(runs=",".join(map(str, [*kept, *again])))
