"""Renames or archives an experiment, if all selected runs are of one."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.data import queries
from app.library import notes
from app.library.flash import Notice, Offer, attempt
from storage import ExperimentRecord, RunRecord

NAME = "experiment_name"
MAX_NAME_LENGTH = 200


def of(runs: Sequence[RunRecord]) -> ExperimentRecord | None:
    ids = {run.experiment_id for run in runs}
    return queries.experiment(ids.pop()) if len(ids) == 1 else None


def panel(runs: Sequence[RunRecord]) -> None:
    found = of(runs)
    if found is None:
        return
    with st.popover("Experiment", key="experiment"):
        key = f"{NAME}_{found.id}"
        st.text_input("Experiment name", found.name, key=key, max_chars=MAX_NAME_LENGTH)
        st.button("Rename", key="rename", on_click=lambda: attempt(rename, found, st.session_state[key]))
        notes.form([found], "experiment")
        title = "Unarchive the whole experiment" if found.archived else "Archive the whole experiment"
        st.button(
            f"{title}, {wording.plural(found.num_runs, 'run')}",
            key="archive_experiment",
            on_click=attempt,
            args=(archive, found, not found.archived),
        )


def rename(found: ExperimentRecord, name: str) -> Notice:
    name = " ".join(name.split())
    if not name:
        return Notice("Enter a name for the experiment.", "error")
    with permits.allow("change", queries.store(), "Rename", of=[found.name], experiment_ids=[found.id]):
        queries.store().experiments.rename(found.id, name)
    return Notice(f"“{wording.plain(found.name)}” is now “{wording.plain(name)}”.")


def archive(found: ExperimentRecord, archived: bool) -> Notice:
    did = "Archive" if archived else "Unarchive"
    with permits.allow("change", queries.store(), did, of=[found.name], experiment_ids=[found.id]):
        queries.store().experiments.archive([found.id], archived)
    what = f"“{wording.plain(found.name)}” with {wording.plural(found.num_runs, 'run')}"
    back = Offer("Undo", archive, (found, not archived))
    return Notice(f"Archived {what}." if archived else f"Unarchived {what}.", offers=(back,))
