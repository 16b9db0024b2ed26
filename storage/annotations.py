"""Notes and tags of experiments and runs. They change no result, and writing them needs no claim."""

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from storage.database import Database
from storage.models import Experiment, Run

MAX_NOTE_LENGTH = 2000
MAX_TAG_LENGTH = 40
MAX_TAGS = 20


class NoteChanged(ValueError):
    """The note was changed after it was read; ``notes`` are stored now."""

    def __init__(self, notes: Collection[str]) -> None:
        self.notes = tuple(notes)
        super().__init__("the note was changed meanwhile; read it before you replace it")


class Annotations:
    def __init__(self, database: Database) -> None:
        self._database = database

    def write(
        self,
        note: str | None = None,
        add: Collection[str] = (),
        remove: Collection[str] = (),
        *,
        run_ids: Sequence[int] = (),
        experiment_ids: Sequence[int] = (),
        replaces: Collection[str] | None = None,
    ) -> None:
        """Replaces the note of each, adds and removes tags; others stay. "" removes the note, None leaves it as it is.

        ``replaces`` are the notes that may be replaced, None for any. If one has another note, this raises NoteChanged.
        Raises ValueError for a note that is too long, for what cannot be a tag, and for too many tags.
        """
        if note is not None and len(note := note.strip()) > MAX_NOTE_LENGTH:
            raise ValueError(f"a note has at most {MAX_NOTE_LENGTH:,} characters, this one has {len(note):,}")
        for tag in add:
            if not tag or len(tag) > MAX_TAG_LENGTH or len(tag.split()) != 1:
                raise ValueError(
                    f"a tag is one word of at most {MAX_TAG_LENGTH} characters, not {tag[:MAX_TAG_LENGTH]!r}"
                )
        with self._database.write() as connection:
            for table, ids in ((Run, run_ids), (Experiment, experiment_ids)):
                selected = sa.select(table.id, table.note, table.tags).where(table.id.in_(ids)).with_for_update()
                rows = connection.execute(selected).all()
                changed = set() if replaces is None else {row.note for row in rows} - {"", note, *replaces}
                if changed and note is not None:
                    raise NoteChanged(sorted(changed))
                for row in rows:
                    tags = tuple(dict.fromkeys(tag for tag in (*row.tags, *add) if tag not in remove))
                    if len(tags) > MAX_TAGS:
                        raise ValueError(f"at most {MAX_TAGS} tags; remove some first")
                    values = {"tags": tags, "note": row.note if note is None else note}
                    connection.execute(sa.update(table).where(table.id == row.id).values(values))
