"""A whole experiment, where the chosen runs are all of one: its name, and whether it is in sight."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.data import queries
from app.library.flash import Offer, Said, attempt
from storage import ExperimentRecord, RunRecord

NAME = "experiment_name"
LONGEST = 200


def of(runs: Sequence[RunRecord]) -> ExperimentRecord | None:
    ids = {run.experiment_id for run in runs}
    return queries.experiment(ids.pop()) if len(ids) == 1 else None


def panel(runs: Sequence[RunRecord]) -> None:
    found = of(runs)
    if found is None:
        return
    with st.popover("Experiment", key="experiment"):
        key = f"{NAME}_{found.id}"
        st.text_input("Name of the experiment", found.name, key=key, max_chars=LONGEST)
        st.button("Rename", key="rename", on_click=lambda: attempt(rename, found, st.session_state[key]))
        title = "Bring the whole experiment back" if found.archived else "Archive the whole experiment"
        st.button(
            f"{title}, {wording.plural(found.num_runs, 'run')}",
            key="archive_experiment",
            on_click=attempt,
            args=(archive, found, not found.archived),
        )


def rename(found: ExperimentRecord, name: str) -> Said:
    name = " ".join(name.split())
    if not name:
        return Said("An experiment needs a name: write one, then press Rename.", "error")
    queries.store().experiments.rename(found.id, name)
    return Said(f"“{wording.plain(found.name)}” is now “{wording.plain(name)}”.")


def archive(found: ExperimentRecord, archived: bool) -> Said:
    queries.store().experiments.archive([found.id], archived)
    what = f"“{wording.plain(found.name)}” with {wording.plural(found.num_runs, 'run')}"
    back = Offer("Undo", archive, (found, not archived))
    return Said(f"Archived {what}." if archived else f"Took {what} out of the archive.", offers=(back,))
