"""Actions on runs, and the error if one could not be done."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.access.permits import Adds
from app.data import allowed_paths, queries
from app.live import live_feed
from app.state import url_state
from storage import StorageError

_REFUSED = "live.refused"
_LOGGED = {to: f"Move {to} in the queue" for to in ("first", "earlier", "later", "last")}
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
    adds: Adds = "runs" if action == "retry" else "nothing"
    with permits.allow("change", queries.store(), _LOGGED.get(action, action.capitalize()), run_ids=run_ids, adds=adds):
        _do(action, run_ids)


def _do(action: str, run_ids: Sequence[int]) -> None:
    queue = queries.store().queue
    match action:
        case "pause" | "cancel":
            queue.request(run_ids, action)
        case "resume":
            queue.resume(run_ids)
        case "retry":
            _retry(run_ids)
        case "first" | "earlier" | "later" | "last":
            queue.move(run_ids, action)
        case "high" | "normal" | "low":
            queue.prioritize(run_ids, wording.PRIORITIES[action])


def _retry(run_ids: Sequence[int]) -> None:
    runs = queries.runs(run_ids=run_ids, include_archived=True)
    refused = {run.id: reason for run in runs if (reason := allowed_paths.problem_of(run))}
    if refused:
        st.session_state[_REFUSED] = next(iter(refused.values()))
    if allowed := [run_id for run_id in run_ids if run_id not in refused]:
        queue = queries.store().queue
        again = queue.repeats(allowed)  # a second press queues no second run
        left = [queue.get(run_id).id for run_id in allowed if run_id not in again]  # raises where one was deleted
        new = queue.retry(left, live_feed.RETRIABLE)
        _show_again(allowed, sorted({*again.values(), *(run.id for run in new)}))


def _show_again(run_ids: Sequence[int], again: Sequence[int]) -> None:
    """If the address names runs, replace the old ones with the new ones."""
    if shown := url_state.ids("runs"):
        kept = [run_id for run_id in shown if run_id not in run_ids]
        url_state.choose(runs=",".join(map(str, [*kept, *again])))
