"""Uploaded files: size, date and use of each, and its deletion."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.access.uploads import UploadedFile
from app.actions.uploads import delete_upload, runs_by_file
from app.data import queries
from app.library.flash import Notice, attempt
from storage import RunRecord

MAX_ROWS = 50


def panel(files: Sequence[UploadedFile], runs: Sequence[RunRecord]) -> None:
    """Draws nothing without files. ``files`` are sorted; ``runs`` are those outside of the trash."""
    if not files:
        return
    st.subheader(title(), anchor=False)
    shown = files[:MAX_ROWS]
    using = runs_by_file(shown, [*runs, *queries.store().trash.list()])
    for file in shown:
        row(file, len(using[file.path]))
    if left := len(files) - len(shown):
        st.caption(f"{wording.plural(left, 'smaller file')} not shown.")


def title() -> str:
    return "Your uploaded files" if permits.current().role == "member" else "Uploaded files"


def row(file: UploadedFile, num_runs: int) -> None:
    at, name, size = file.uploaded_at, wording.plain(file.name), wording.size_bytes(file.size_bytes)
    use = f"used by {wording.plural(num_runs, 'run')}" if num_runs else "not used by any run"
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.write(f"{name}  \n:small[{size} · {at.day} {at:%b %Y, %H:%M} UTC · {use}]")
        with st.popover("Delete", key=f"delete_{file.path}"):
            st.write(f"Delete {name} ({size})? This can't be undone. {consequence(num_runs)}")
            st.button(
                "Delete file",
                key=f"delete_now_{file.path}",
                type="primary",
                on_click=attempt,
                args=(delete, file.path),
            )


def consequence(num_runs: int) -> str:
    """What happens to the runs that use the file."""
    if not num_runs:
        return ""
    subject = "The run that uses it keeps its" if num_runs == 1 else f"The {num_runs} runs that use it keep their"
    return f"{subject} results, but can't be rerun or analyzed further."


def delete(path: str) -> Notice:
    file = delete_upload(path)
    return Notice(f"Deleted {wording.plain(file.name)}, freeing {wording.size_bytes(file.size_bytes)}.")
