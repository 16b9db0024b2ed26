"""What lies on the disk, by kind, how much is left, and how to take a backup."""

import html
from datetime import date

import streamlit as st

from app import wording
from app.data.overview import LOW_DISK_BYTES
from storage import DiskUse

MAKE_ROOM = "Delete runs and empty the trash, or drop the models of runs that nobody looks into any more."


def fold(use: DiskUse) -> None:
    total = sum(size for size in parts(use).values())
    is_low = use.free_bytes < LOW_DISK_BYTES
    title = f"Disk: {wording.size_bytes(total)} in use, {wording.size_bytes(use.free_bytes)} free"
    with st.expander(title + (", nearly full" if is_low else ""), expanded=is_low, key="library_disk"):
        if is_low:
            st.warning(MAKE_ROOM)
        rows = {**parts(use), "Free": use.free_bytes}
        items = "".join(f"<dt>{html.escape(n)}</dt><dd>{wording.size_bytes(size)}</dd>" for n, size in rows.items())
        st.html(f'<dl class="disk">{items}</dl>')
        st.caption("A backup is one file with every run, its models and its place in the queue:")
        st.code(f"python -m engine backup fedscape-{date.today():%Y-%m-%d}.zip", language=None)


def parts(use: DiskUse) -> dict[str, int]:
    """By what takes it; the trash has models and checkpoints of its own."""
    return {
        "Rounds and settings (the database)": use.database_bytes,
        "Models": use.models_bytes,
        "Checkpoints": use.checkpoints_bytes,
        "Analyses": use.analyses_bytes,
        "Trash": use.trash_bytes,
    }
