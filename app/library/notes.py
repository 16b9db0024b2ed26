"""Notes and tags of the selected runs, or of their experiment."""

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

import streamlit as st

from app import wording
from app.access import permits
from app.data import queries
from app.library.flash import Notice, Offer, attempt
from storage import RunRecord
from storage.annotations import MAX_NOTE_LENGTH, NoteChanged

Kind = Literal["run", "experiment"]


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
        form(runs, "run")


def form(stored: Sequence[Annotated], kind: Kind) -> None:
    """Note and tags as they are stored. An edited form keeps what was typed, whatever others store meanwhile."""
    things: Sequence[Annotated] = st.session_state.get(_form_key(stored, kind), stored)
    if _typed(things, kind) == _shown(things):
        things = stored
    st.session_state[_form_key(stored, kind)] = things
    (note, tags), key, differ = _shown(things), _fields_key(things, kind), common_note(things) is None
    st.text_area(
        "Note",
        note,
        key=f"note_{key}",
        max_chars=MAX_NOTE_LENGTH,
        placeholder="Their notes differ. A new one replaces them." if differ else "What you want to remember",
    )
    st.text_input(
        "Tags", " ".join(tags), key=f"tags_{key}", placeholder="baseline lecture-3", help="Words, separated by spaces"
    )
    st.button("Save", key=f"save_{key}", on_click=_save, args=(things, kind))


def common_note(things: Sequence[Annotated]) -> str | None:
    """The note that all have, None if their notes differ."""
    notes = {thing.note for thing in things}
    return notes.pop() if len(notes) == 1 else None


def common_tags(things: Sequence[Annotated]) -> tuple[str, ...]:
    return tuple(tag for tag in things[0].tags if all(tag in thing.tags for thing in things))


def write(
    things: Sequence[Annotated],
    note: str | None,
    add: Sequence[str],
    remove: Sequence[str],
    kind: Kind,
    replaces: Collection[str] = (),
) -> Notice:
    """Changes what differs; None leaves the notes as they are. Replaces the notes of ``things``, and ``replaces``."""
    ids = [thing.id for thing in things]
    run_ids, experiment_ids = (ids, []) if kind == "run" else ([], ids)
    try:
        with permits.allow(
            "change", queries.store(), "Edit notes and tags", run_ids=run_ids, experiment_ids=experiment_ids
        ):
            queries.store().annotations.write(
                note,
                add,
                remove,
                run_ids=run_ids,
                experiment_ids=experiment_ids,
                replaces={*(thing.note for thing in things), *replaces},
            )
    except NoteChanged as error:
        now = wording.plain(wording.names((f"“{note}”" for note in error.notes), limit=len(error.notes)))
        text = f"Not saved: the note has changed since you opened it. It is now {now}; yours is still in the form."
        return Notice(text, "error", (Offer("Replace it", write, (things, note, add, remove, kind, error.notes)),))
    except ValueError as error:
        return Notice(wording.plain(f"Not saved: {error}."), "error")
    st.session_state.pop(_form_key(things, kind), None)
    return Notice(f"Saved notes and tags of {wording.plural(len(things), kind)}.")


def _save(things: Sequence[Annotated], kind: Kind) -> None:
    (note, tags), (typed, words) = _shown(things), _typed(things, kind)
    added, removed = [word for word in words if word not in tags], [tag for tag in tags if tag not in words]
    attempt(write, things, None if typed == note else typed, added, removed, kind)


def _shown(things: Sequence[Annotated]) -> tuple[str, tuple[str, ...]]:
    """The note and the tags in a form that was not edited."""
    return common_note(things) or "", common_tags(things)


def _typed(things: Sequence[Annotated], kind: Kind) -> tuple[str, tuple[str, ...]]:
    """The note and the tags in the fields."""
    (note, tags), key = _shown(things), _fields_key(things, kind)
    typed, words = st.session_state.get(f"note_{key}", note), st.session_state.get(f"tags_{key}", " ".join(tags))
    return typed.strip(), tuple(words.split())


def _form_key(things: Sequence[Annotated], kind: Kind) -> str:
    return f"{kind}_notes.{hash(tuple(thing.id for thing in things))}"


def _fields_key(things: Sequence[Annotated], kind: Kind) -> str:
    """Fields with other values are new fields, which show them."""
    return f"{kind}.{hash((tuple(thing.id for thing in things), common_note(things), common_tags(things)))}"
