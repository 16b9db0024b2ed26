"""The audit log, for admins: who cancelled, deleted or changed what."""

import pandas as pd
import streamlit as st

from app import wording
from app.access import permits
from app.components import page
from app.data import queries
from app.library.listing import times
from storage import AuditRecord

MAX_ENTRIES = 500
COLUMNS = {"who": "Person", "did": "Action", "what": "Runs, experiments or files"}


def expander() -> None:
    """Draws nothing without sign-in."""
    if not permits.current().name or permits.refusal("audit"):
        return
    entries = queries.store().audit.list(MAX_ENTRIES)
    with st.expander("Audit log", key="library_audit"):
        if not entries:
            st.caption("Nothing yet. Everything that people queue, change or delete is listed here.")
            return
        newest = f"The newest {wording.count(MAX_ENTRIES)} entries. " if len(entries) == MAX_ENTRIES else ""
        st.caption(f"{newest}Entries are kept when their runs are deleted.")
        st.dataframe(
            table(entries),
            hide_index=True,
            height=page.table_height(len(entries), 390),
            key="library_audit_table",
            column_config=COLUMNS | {"when": times("When")},
            alt="Audit log, newest first",
        )


def table(entries: list[AuditRecord]) -> pd.DataFrame:
    """A row per entry, newest first."""
    return pd.DataFrame(
        [{"when": entry.at, "who": entry.person, "did": entry.action, "what": entry.subject} for entry in entries]
    )
