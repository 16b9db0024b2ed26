"""Runs from elsewhere: exported files, and the examples that ship with the product."""

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import exchange, wording
from app.library import said
from app.library.file_kinds import what_else
from app.library.said import Said, attempt
from engine.errors import InvalidConfig
from storage import ExperimentRecord, StorageError

KEY = "library_import"
MAX_MEGABYTES = 200


def panel() -> None:
    """A place to drop files on, and the examples."""
    again = st.session_state.setdefault(f"{KEY}.times", 0)  # another key, an empty place
    files = st.file_uploader(
        "Files of runs that were exported here or by the command line", key=f"{KEY}_{again}",
        accept_multiple_files=True, max_upload_size=MAX_MEGABYTES,
        help=f"JSON or a bundle with models. Above {MAX_MEGABYTES} MB: python -m engine import FILE",
    )  # fmt: skip
    if files and st.button(f"Import {wording.plural(len(files), 'file')}", key="import_now", type="primary"):
        said.say(bring(files))
        st.session_state[f"{KEY}.times"] += 1
        st.rerun()
    if exchange.example_files():
        st.button("Load the examples", key="examples", on_click=attempt, args=(load_examples,))


def bring(files: Sequence[UploadedFile]) -> Said:
    """One after the other; a file that cannot be read keeps none of the others out."""
    found: list[ExperimentRecord] = []
    problems: list[str] = []
    with st.container(key="library_progress"):
        bar = st.progress(0.0)
    for i, file in enumerate(files):
        def tell(number: int, of: int, i: int = i, name: str = file.name) -> None:
            share = (i + number / max(of, 1)) / len(files)
            bar.progress(share, wording.plain(f"{name}: run {number} of {of}"))

        bar.progress(i / len(files), wording.plain(f"{file.name}: reading"))
        try:
            found += read(file.name, file.getvalue(), tell)
        except InvalidConfig as error:
            problems += error.problems
        except StorageError as error:
            problems.append(f"{file.name}: {error}")
    said_of_them = imported(found) if found or not problems else ""
    return Said(wording.lines(problems) + ("  \n" if problems and found else "") + said_of_them,
                "error" if problems else "success")  # fmt: skip


def read(name: str, data: bytes, tell: exchange.Progress) -> list[ExperimentRecord]:
    """Raises InvalidConfig that says what the file is, where it is none of runs."""
    if other := what_else(name, data):
        raise InvalidConfig([f"{other}."])
    return exchange.import_bytes(name, data, tell)


def load_examples() -> Said:
    return Said(imported(exchange.load_examples()))


def imported(experiments: Sequence[ExperimentRecord]) -> str:
    if not experiments:
        return "All of it is there already."
    several = wording.names(f"“{wording.plain(e.name)}” ({wording.plural(e.num_runs, 'run')})" for e in experiments)
    return f"Imported {several}."
