"""Notes and tags of experiments and runs. They change no result, and writing them needs no claim."""

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from storage.database import Database
from storage.models import Experiment, Run

MAX_NOTE_LENGTH = 2000
MAX_TAG_LENGTH = 40
MAX_TAGS = 20


class Annotations:
    def __init__(self, database: Database) -> None:
        self._database = database

    def write_note(self, note: str, *, run_ids: Sequence[int] = (), experiment_ids: Sequence[int] = ()) -> None:
        """Replaces the note of each; "" removes it. Raises ValueError above MAX_NOTE_LENGTH characters."""
        note = note.strip()
        if len(note) > MAX_NOTE_LENGTH:
            raise ValueError(f"a note has at most {MAX_NOTE_LENGTH:,} characters, this one has {len(note):,}")
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(note=note))
            connection.execute(sa.update(Experiment).where(Experiment.id.in_(experiment_ids)).values(note=note))

    def tag(
        self,
        add: Collection[str],
        remove: Collection[str] = (),
        *,
        run_ids: Sequence[int] = (),
        experiment_ids: Sequence[int] = (),
    ) -> None:
        """Adds and removes tags of each; others stay. Raises ValueError for what cannot be a tag, or for too many."""
        for tag in add:
            if not tag or len(tag) > MAX_TAG_LENGTH or len(tag.split()) != 1:
                raise ValueError(
                    f"a tag is one word of at most {MAX_TAG_LENGTH} characters, not {tag[:MAX_TAG_LENGTH]!r}"
                )
        with self._database.write() as connection:
            for table, ids in ((Run, run_ids), (Experiment, experiment_ids)):
                selected = sa.select(table.id, table.tags).where(table.id.in_(ids)).with_for_update()
                for row in connection.execute(selected).all():
                    tags = tuple(dict.fromkeys(tag for tag in (*row.tags, *add) if tag not in remove))
                    if len(tags) > MAX_TAGS:
                        raise ValueError(f"at most {MAX_TAGS} tags; remove some first")
                    connection.execute(sa.update(table).where(table.id == row.id).values(tags=tags))
