"""Disk use by kind, free space, and how to make a backup."""

import html
from collections.abc import Sequence
from datetime import date

import streamlit as st

from app import wording
from app.actions.uploads import deletable
from app.data.overview import LOW_DISK_BYTES
from app.library import uploads
from storage import DiskUse, RunRecord

MAKE_ROOM = "Delete runs and empty the trash, or drop models that you no longer need."


def expander(use: DiskUse, runs: Sequence[RunRecord]) -> None:
    files = deletable()
    uploaded = {uploads.title(): sum(file.size_bytes for file in files)} if files else {}
    in_use = parts(use) | uploaded
    total = sum(in_use.values())
    is_low = use.free_bytes < LOW_DISK_BYTES
    title = f"Disk: {wording.size_bytes(total)} in use, {wording.size_bytes(use.free_bytes)} free"
    with st.expander(title + (", nearly full" if is_low else ""), expanded=is_low, key="library_disk"):
        if is_low:
            st.warning(MAKE_ROOM)
        rows = {**in_use, "Free": use.free_bytes}
        items = "".join(f"<dt>{html.escape(n)}</dt><dd>{wording.size_bytes(size)}</dd>" for n, size in rows.items())
        st.html(f'<dl class="disk">{items}</dl>')
        uploads.panel(files, runs)
        st.caption("Back up all runs, models and the queue to one file:")
        st.code(f"python -m engine backup fedscape-{date.today():%Y-%m-%d}.zip", language=None)


def parts(use: DiskUse) -> dict[str, int]:
    """Bytes by kind; the trash has its own models and checkpoints."""
    return {
        "Rounds and settings (database)": use.database_bytes,
        "Models": use.models_bytes,
        "Checkpoints": use.checkpoints_bytes,
        "Analyses": use.analyses_bytes,
        "Trash": use.trash_bytes,
    }
