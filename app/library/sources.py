"""Imports runs: exported files, and the examples that ship with Fedscape."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import RerunException, StopException
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import wording
from app.access import permits
from app.actions import exchange
from app.data import queries
from app.library import flash
from app.library.file_kinds import what_else
from app.library.flash import Notice, attempt
from engine.core.errors import InvalidConfig
from engine.exchange.import_runs import Imported, Progress
from storage import StorageError

KEY = "library_import"
MAX_MEGABYTES = 200


def panel() -> None:
    """The file uploader, and the examples."""
    if reason := permits.refusal("import"):
        st.caption(reason)
        return
    again = st.session_state.setdefault(f"{KEY}.times", 0)  # a new key empties the uploader
    files = st.file_uploader(
        "Drop exported run files here, or browse",
        key=f"{KEY}_{again}",
        accept_multiple_files=True,
        max_upload_size=MAX_MEGABYTES,
        help=f"JSON, or a bundle with models. Over {MAX_MEGABYTES} MB: python -m engine import FILE",
    )
    if files and st.button(f"Import {wording.plural(len(files), 'file')}", key="import_now", type="primary"):
        flash.show(import_files(files))
        st.session_state[f"{KEY}.times"] += 1
        st.rerun()
    if exchange.example_files():
        st.button("Load examples", key="examples", on_click=attempt, args=(load_examples,))


def import_files(files: Sequence[UploadedFile]) -> Notice:
    """Import the files one after the other; one that cannot be read does not stop the others.

    If another press stops it, the notice says which files were not imported.
    """
    found: list[Imported] = []
    problems: list[str] = []
    bar = st.progress(0.0)
    for i, file in enumerate(files):
        try:
            bar.progress(i / len(files), wording.plain(f"{file.name}: reading"))
            found.append(read(file.name, file.getvalue(), partial(_show_progress, bar, file.name, i, len(files))))
        except InvalidConfig as error:
            problems += error.problems
        except StorageError as error:
            problems.append(f"{file.name}: {error}")
        except (RerunException, StopException):
            left = wording.names([file.name for file in files[i:]])
            flash.show(_summary(found, [*problems, f"{left}: not imported, because something else was pressed."]))
            raise
    return _summary(found, problems)


def read(name: str, data: bytes, on_progress: Progress) -> Imported:
    """Raises InvalidConfig with an explanation if the file is not an export of runs."""
    if other := what_else(name, data):
        raise InvalidConfig([f"{other}."])
    return exchange.import_bytes(name, data, on_progress)


def load_examples() -> Notice:
    loaded = exchange.load_examples()
    return outcome([(e.name, e.num_runs) for e in loaded]) if loaded else Notice("The examples were already loaded.")


def _summary(found: Sequence[Imported], problems: Sequence[str]) -> Notice:
    notes = [note for each in found for note in each.notes]
    new = [(e.name, len(each.new_runs[e.id])) for each in found for e in each.experiments]
    return outcome(new, sum(len(each.known) for each in found), [*problems, *notes], _copies(found))


def _copies(found: Sequence[Imported]) -> list[str]:
    """The names of imported experiments that others have, too."""
    names = {experiment.id: experiment.name for each in found for experiment in each.experiments}
    others = {e.name for e in queries.experiments(include_archived=True) if e.id not in names}
    return [name for name in dict.fromkeys(names.values()) if name in others]


def outcome(
    new: Sequence[tuple[str, int]], known: int = 0, problems: Sequence[str] = (), copies: Sequence[str] = ()
) -> Notice:
    """A summary of what was imported, what already existed, and the problems with the rest.

    ``new``: (name, number of new runs) of each experiment; ``copies``: the names that another experiment has, too.
    """
    sentences = []
    if new:
        num_runs = Counter[str]()  # files may have experiments of the same name
        for name, runs in new:
            num_runs[name] += runs
        several = wording.names(f"“{name}” ({wording.plural(runs, 'run')})" for name, runs in num_runs.items())
        sentences.append(f"Imported {several}.")
        if copies:
            which = wording.names(f"“{name}”" for name in copies)
            sentences.append(
                f"An experiment named {which} existed already; the new one is marked (imported)."
                if len(copies) == 1
                else f"Experiments named {which} existed already; the new ones are marked (imported)."
            )
        if known:
            sentences.append(f"{wording.plural(known, 'run was', 'runs were')} already imported.")
    elif not problems:
        sentences.append("Everything was already imported." if known else "The file has no runs.")
    if not sentences:
        return Notice(wording.lines(problems), "error")
    return Notice(wording.lines(sentences), problems=wording.lines(problems))


def _show_progress(bar: DeltaGenerator, name: str, file: int, files: int, number: int, of: int) -> None:
    bar.progress((file + (number - 1) / of) / files, wording.plain(f"{name}: run {number} of {of}"))
