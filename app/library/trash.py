"""The trash: deleted runs that can still be brought back, all or some, until they are deleted for good."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app import wording
from app.data import queries
from app.data.comparison import method_name, run_name
from app.library.chosen import choose
from app.library.flash import Said, attempt
from app.library.listing import times
from engine.worker.cleanup import TRASH_RETENTION
from storage import RunRecord

KEY = "library_trash"
COLUMNS: dict[str, Any] = {name: name.capitalize() for name in ("run", "experiment", "method", "seed", "status")}


def fold(is_open: bool = False) -> None:
    runs = queries.store().trash.list()
    if not runs:
        return
    with st.expander(f"Trash: {wording.plural(len(runs), 'deleted run')}", expanded=is_open, key="library_trash_fold"):
        st.caption(f"The engine deletes for good what has been here for {TRASH_RETENTION.days} days.")
        st.dataframe(
            table(runs),
            hide_index=True,
            height=min(38 + 35 * len(runs), 300),
            key="library_trash_table",
            column_config=COLUMNS | {"deleted": times("Deleted")},
            alt="Deleted runs",
        )
        buttons(runs)


def table(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """A row a run, the last deleted first."""
    return pd.DataFrame(
        [
            {
                "run": run.id,
                "experiment": run.experiment_name,
                "method": method_name(run.label, run.algorithm),
                "seed": run.seed,
                "status": wording.STATUS.get(run.status, run.status),
                "deleted": run.deleted_at,
            }
            for run in runs
        ]
    )


def buttons(runs: Sequence[RunRecord]) -> None:
    """For those picked, or for all."""
    names = {run.id: f"{run.id} · {run_name(run)}" for run in runs}
    picked = st.multiselect(
        "Of these",
        list(names),
        key=KEY,
        placeholder="all of them",
        format_func=names.__getitem__,
    )
    ids, several = picked or list(names), wording.plural(len(picked or names), "run")
    with st.container(horizontal=True, key="library_trash_buttons"):
        st.button(f"Bring back {several}", key="restore", on_click=attempt, args=(restore, ids))
        with st.popover("Delete for good", key="purge"):
            st.write(f"Delete {several} with rounds, models and analyses? There is no way back from this.")
            st.button(
                f"Delete {several} for good", key="purge_now", type="primary", on_click=attempt, args=(purge, ids)
            )


def restore(run_ids: Sequence[int]) -> Said:
    """Out of the trash, and chosen. Somebody may have deleted them for good meanwhile."""
    queries.store().trash.restore(run_ids)
    back = [run.id for run in queries.runs(run_ids=run_ids, include_archived=True)]
    choose(back)
    if not back:
        return Said("They were deleted for good meanwhile.", "error")
    return Said(f"Brought back {wording.plural(len(back), 'run')}.")


def purge(run_ids: Sequence[int]) -> Said:
    return Said(f"Deleted {wording.plural(queries.store().trash.delete(run_ids), 'run')} for good.")
