"""All actions on the selected runs, and their notices."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.actions import launch
from app.data import queries
from app.library import bulk, experiment, export, models, notes, trash
from app.library.chosen import choose
from app.library.flash import Notice, Offer, attempt
from app.state import links
from storage import RunRecord


def panel(runs: Sequence[RunRecord]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="library_look"):
        look_at(runs)
        export.buttons(runs)
        if not permits.why_not("change", runs):
            notes.panel(runs)
            experiment.panel(runs)
    if reason := permits.refusal("change"):
        st.caption(reason)
        return
    with st.container(horizontal=True, vertical_alignment="center", key="library_actions"):
        for name in ("rerun", "retry", "pause", "resume", "cancel"):
            offer(name, runs)
        priorities(runs)
        for name in ("archive", "unarchive", "delete"):
            offer(name, runs)
        models.panel(runs)


def look_at(runs: Sequence[RunRecord]) -> None:
    """Open a page that shows them, or Set up with their experiment."""
    ids = ",".join(str(run.id) for run in runs)
    if st.button("Compare", key="compare", type="primary"):
        launch.open_page("compare", "Compare them", runs=ids)
    if len(runs) == 1 and st.button("Look inside", key="inside"):
        launch.open_page("run", "Look inside", id=runs[0].id)
    if st.button("Watch", key="watch"):
        launch.open_page("live", "Watch them", runs=ids)
    if (one := experiment.of(runs)) and st.button("Open in Set up", key="open_setup"):
        launch.open_page("setup", "Set up", config=links.pack_config(one.config))


def offer(name: str, runs: Sequence[RunRecord]) -> None:
    """A button if the action applies to at least one of the runs; actions that cannot be undone need a confirmation."""
    action, ids = bulk.ACTIONS[name], [run.id for run in runs]
    fit = bulk.fitting(action, runs)
    if not fit and (name != "delete" or not permits.theirs(action.right, runs)):
        return
    title = action.title if len(fit) in (0, len(runs)) else f"{action.title} {len(fit)} of {len(runs)}"
    if name != "cancel":
        st.button(title, key=name, on_click=attempt, args=(perform, name, ids))
        return
    with st.popover(title, key="cancel"):
        several = wording.plural(len(fit), "run")
        st.write(f"Cancel {several}? This can't be undone. Completed rounds are kept. To continue later, use Pause.")
        st.button(f"Cancel {several}", key="cancel_now", type="primary", on_click=attempt, args=(perform, name, ids))


def priorities(runs: Sequence[RunRecord]) -> None:
    """The order of the runs that are not finished."""
    waiting = [run for run in runs if not run.is_finished]
    if not waiting:
        return
    with st.popover("Priority", key="priority"):
        now = wording.names(wording.priority(run.priority) for run in waiting)
        st.write(f"Current: {now}. Higher priority starts first; runs of equal priority start in queue order.")
        for name in wording.PRIORITIES:
            if bulk.fitting(bulk.ACTIONS[f"{name} priority"], runs):
                st.button(
                    name.capitalize(),
                    key=f"priority_{name}",
                    on_click=attempt,
                    args=(perform, f"{name} priority", [run.id for run in runs]),
                )


def perform(name: str, run_ids: Sequence[int]) -> Notice:
    """Apply the action to the runs that it fits now, and report the outcome."""
    action = bulk.ACTIONS[name]
    runs = queries.runs(run_ids=run_ids, include_archived=True)
    text, fit = bulk.outcome(action, runs, len(run_ids)), bulk.fitting(action, runs)
    answer = None
    if fit:
        with permits.allow(
            action.right, queries.store(), _logged(name), run_ids=fit, adds="runs" if action.adds_runs else "nothing"
        ):
            answer = action.do(queries.store(), fit)
    if isinstance(answer, list):  # new runs
        choose([run.id for run in answer])
    offers = after_deletion(runs, fit) if name == "delete" else ()
    return Notice(text, "success" if fit else "info", offers)


def _logged(name: str) -> str:
    """The action in the audit log."""
    return f"Set {name}" if name.endswith("priority") else name.capitalize()


def after_deletion(runs: Sequence[RunRecord], deleted: Sequence[int]) -> tuple[Offer, ...]:
    """Offer to undo, and to cancel the runs that could not be deleted because they are running."""
    left = [run for run in runs if run.id not in deleted]
    choose([run.id for run in left])
    offers = [Offer("Undo", trash.restore, (list(deleted),))] if deleted else []
    if running := bulk.fitting(bulk.ACTIONS["cancel"], left):
        offers.append(Offer(f"Cancel {wording.plural(len(running), 'run')}", perform, ("cancel", running)))
    return tuple(offers)
