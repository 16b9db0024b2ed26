"""Runs from elsewhere: exported files, and the examples that ship with the product."""

from collections.abc import Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import wording
from app.actions import exchange
from app.library import flash
from app.library.file_kinds import what_else
from app.library.flash import Said, attempt
from engine.core.errors import InvalidConfig
from engine.exchange.import_runs import Imported, Progress
from storage import ExperimentRecord, StorageError

KEY = "library_import"
MAX_MEGABYTES = 200


def panel() -> None:
    """A place to drop files on, and the examples."""
    again = st.session_state.setdefault(f"{KEY}.times", 0)  # another key, an empty place
    files = st.file_uploader(
        "Drop exported files of runs here, or choose them",
        key=f"{KEY}_{again}",
        accept_multiple_files=True,
        max_upload_size=MAX_MEGABYTES,
        help=f"JSON, or a bundle with models. Above {MAX_MEGABYTES} MB: python -m engine import FILE",
    )
    if files and st.button(f"Import {wording.plural(len(files), 'file')}", key="import_now", type="primary"):
        flash.say(bring(files))
        st.session_state[f"{KEY}.times"] += 1
        st.rerun()
    if exchange.example_files():
        st.button("Load the examples", key="examples", on_click=attempt, args=(load_examples,))


def bring(files: Sequence[UploadedFile]) -> Said:
    """One after the other; a file that cannot be read keeps none of the others out."""
    found: list[Imported] = []
    problems: list[str] = []
    bar = st.progress(0.0)
    for i, file in enumerate(files):
        bar.progress(i / len(files), wording.plain(f"{file.name}: reading"))
        try:
            found.append(read(file.name, file.getvalue(), partial(_tell, bar, file.name, i, len(files))))
        except InvalidConfig as error:
            problems += error.problems
        except StorageError as error:
            problems.append(f"{file.name}: {error}")
    return told([e for each in found for e in each.experiments], sum(len(each.known) for each in found), problems)


def read(name: str, data: bytes, tell: Progress) -> Imported:
    """Raises InvalidConfig that says what the file is, where it is none of runs."""
    if other := what_else(name, data):
        raise InvalidConfig([f"{other}."])
    return exchange.import_bytes(name, data, tell)


def load_examples() -> Said:
    return told(exchange.load_examples())


def told(experiments: Sequence[ExperimentRecord], known: int = 0, problems: Sequence[str] = ()) -> Said:
    """What came in, what was there already, and what is wrong with the rest."""
    sentences = []
    if experiments:
        several = wording.names(f"“{e.name}” ({wording.plural(e.num_runs, 'run')})" for e in experiments)
        sentences.append(f"Imported {several}.")
        if known:
            sentences.append(f"{wording.plural(known, 'run was', 'runs were')} there already.")
    elif not problems:
        sentences.append("All of it is there already.")
    return Said(wording.lines([*problems, *sentences]), "error" if problems else "success")


def _tell(bar: DeltaGenerator, name: str, file: int, files: int, number: int, of: int) -> None:
    bar.progress((file + (number - 1) / of) / files, wording.plain(f"{name}: run {number} of {of}"))
