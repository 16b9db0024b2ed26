"""Notes and tags of the selected runs, or of their experiment."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import streamlit as st

from app import wording
from app.access import permits
from app.data import queries
from app.library.flash import Notice, attempt
from storage import ExperimentRecord, RunRecord
from storage.annotations import MAX_NOTE_LENGTH


class Annotated(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def note(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...


def panel(runs: Sequence[RunRecord]) -> None:
    """Notes and tags of the selected runs. Only what all of them have in common is shown and changed."""
    with st.popover("Notes and tags", key="notes"):
        if len(runs) > 1:
            st.caption(f"Saved for all {wording.plural(len(runs), 'run')}. Tags that only some runs have are kept.")
        form(runs, "runs", lambda note, add, remove: write(runs, note, add, remove, "run"))


def of_experiment(found: ExperimentRecord) -> None:
    form([found], f"experiment_{found.id}", lambda note, add, remove: write([found], note, add, remove, "experiment"))


def form(
    things: Sequence[Annotated], key: str, save: Callable[[str | None, Sequence[str], Sequence[str]], Notice]
) -> None:
    """Note and tags. *Save* calls ``save(note, tags to add, tags to remove)``; an unchanged note is None."""
    note, tags = common_note(things), common_tags(things)
    own = f"{key}.{hash((tuple(thing.id for thing in things), note, tags))}"  # shows what is stored, not what was typed
    st.text_area(
        "Note",
        note or "",
        key=f"note_{own}",
        max_chars=MAX_NOTE_LENGTH,
        placeholder="Their notes differ. A new one replaces them." if note is None else "What you want to remember",
    )
    st.text_input(
        "Tags", " ".join(tags), key=f"tags_{own}", placeholder="baseline lecture-3", help="Words, separated by spaces"
    )
    st.button("Save", key=f"save_{own}", on_click=partial(_save, f"note_{own}", f"tags_{own}", note, tags, save))


def common_note(things: Sequence[Annotated]) -> str | None:
    """The note that all have, None if their notes differ."""
    notes = {thing.note for thing in things}
    return notes.pop() if len(notes) == 1 else None


def common_tags(things: Sequence[Annotated]) -> tuple[str, ...]:
    return tuple(tag for tag in things[0].tags if all(tag in thing.tags for thing in things))


def write(
    things: Sequence[Annotated], note: str | None, add: Sequence[str], remove: Sequence[str], kind: str
) -> Notice:
    """Changes what differs; None leaves the notes as they are."""
    ids = [thing.id for thing in things]
    of = {"run_ids": ids if kind == "run" else [], "experiment_ids": ids if kind == "experiment" else []}
    try:
        with permits.allow(
            "change", queries.store(), "Edit notes and tags", run_ids=of["run_ids"], experiment_ids=of["experiment_ids"]
        ):
            queries.store().annotations.tag(add, remove, **of)
            if note is not None:
                queries.store().annotations.write_note(note, **of)
    except ValueError as error:
        return Notice(wording.plain(f"Not saved: {error}."), "error")
    return Notice(f"Saved notes and tags of {wording.plural(len(things), kind)}.")


def _save(
    note_key: str,
    tags_key: str,
    note: str | None,
    tags: Sequence[str],
    save: Callable[[str | None, Sequence[str], Sequence[str]], Notice],
) -> None:
    typed, words = st.session_state[note_key].strip(), st.session_state[tags_key].split()
    added, removed = [word for word in words if word not in tags], [tag for tag in tags if tag not in words]
    attempt(save, None if typed == (note or "") else typed, added, removed)
