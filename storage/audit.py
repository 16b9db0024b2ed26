"""The audit log: who did what. Entries are written in the transaction of the action, and never changed."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from storage.database import Database
from storage.models import AuditEntry, now
from storage.records import AuditRecord

COLUMNS = tuple(AuditEntry.__table__.columns)


class Audit:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, limit: int = 500) -> list[AuditRecord]:
        """The newest ``limit`` entries, newest first."""
        query = sa.select(*COLUMNS).order_by(AuditEntry.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [AuditRecord(**row._mapping) for row in connection.execute(query)]

    @contextmanager
    def entry(self) -> Iterator[None]:
        """For an action that changes no other row, such as the deletion of a file. No entry is written if it raises."""
        with self._database.write():
            yield


def insert_audit(connection: sa.Connection, person: str, action: str, subject: str) -> None:
    """Adds an entry inside the caller's transaction."""
    values = {"at": now(), "person": person, "action": action, "subject": subject}
    connection.execute(sa.insert(AuditEntry).values(values))
