"""The trash: deleted runs that can be restored until they are permanently deleted."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app import wording
from app.access import permits
from app.components import page
from app.data import queries
from app.data.comparison import method_name, run_name
from app.library.chosen import choose
from app.library.flash import Notice, attempt
from app.library.listing import times
from engine.worker.cleanup import TRASH_RETENTION
from storage import RunRecord

KEY = "library_trash"
COLUMNS: dict[str, Any] = {name: name.capitalize() for name in ("run", "experiment", "method", "seed", "status")}


def expander(is_open: bool = False) -> None:
    runs = queries.store().trash.list()
    if not runs:
        return
    with st.expander(f"Trash: {wording.plural(len(runs), 'deleted run')}", expanded=is_open, key="library_trash_fold"):
        st.caption(f"Runs are permanently deleted after {TRASH_RETENTION.days} days in the trash.")
        st.dataframe(
            table(runs),
            hide_index=True,
            height=page.table_height(len(runs), 300),
            key="library_trash_table",
            column_config=COLUMNS | {"deleted": times("Deleted")},
            alt="Deleted runs",
        )
        allowed = permits.theirs("delete", runs)
        if own := [run for run in runs if run.id in allowed]:
            buttons(own)


def table(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """A row per run, the last deleted first."""
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
    """Restore or delete the selected runs, or all."""
    names = {run.id: f"{run.id} · {run_name(run)}" for run in runs}
    picked = st.multiselect(
        "Runs in the trash",
        list(names),
        key=KEY,
        placeholder="all",
        format_func=names.__getitem__,
    )
    ids, several = picked or list(names), wording.plural(len(picked or names), "run")
    with st.container(horizontal=True, key="library_trash_buttons"):
        st.button(f"Restore {several}", key="restore", on_click=attempt, args=(restore, ids))
        with st.popover("Delete permanently", key="purge"):
            st.write(f"Delete {several} with rounds, models and analyses? This can't be undone.")
            st.button(
                f"Delete {several} permanently", key="purge_now", type="primary", on_click=attempt, args=(purge, ids)
            )


def restore(run_ids: Sequence[int]) -> Notice:
    """Restore and select the runs. They may have been permanently deleted meanwhile."""
    store, asked = queries.store(), set(run_ids)
    is_queued_again = any(not run.is_finished for run in store.trash.list() if run.id in asked)
    with permits.allow("delete", store, "Restore", run_ids=run_ids, adds="runs" if is_queued_again else "nothing"):
        store.trash.restore(run_ids)
    back = [run.id for run in queries.runs(run_ids=run_ids, include_archived=True)]
    choose(back)
    if not back:
        return Notice("These runs have since been permanently deleted.", "error")
    return Notice(f"Restored {wording.plural(len(back), 'run')}.")


def purge(run_ids: Sequence[int]) -> Notice:
    with permits.allow("delete", queries.store(), "Delete permanently", run_ids=run_ids):
        deleted = queries.store().trash.delete(run_ids)
    return Notice(f"Permanently deleted {wording.plural(deleted, 'run')}.")
