"""Views of a page saved under a name: the query string of the page's address, so each view is also a link."""

import sqlalchemy as sa

from storage.database import Database
from storage.models import SavedView, now
from storage.records import SavedViewRecord

COLUMNS = tuple(SavedView.__table__.columns)


class SavedViews:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, page: str) -> list[SavedViewRecord]:
        """The views of a page, by name."""
        query = sa.select(*COLUMNS).where(SavedView.page == page).order_by(SavedView.name)
        with self._database.read() as connection:
            return [SavedViewRecord(**row._mapping) for row in connection.execute(query)]

    def save(self, page: str, name: str, query: str) -> None:
        """Saves a view; replaces the one with the same name."""
        values = {"query": query, "created_at": now()}
        with self._database.write() as connection:
            known = sa.update(SavedView).where(SavedView.page == page, SavedView.name == name)
            if connection.execute(known.values(values)).rowcount == 0:
                connection.execute(sa.insert(SavedView).values(values | {"page": page, "name": name}))

    def delete(self, page: str, name: str) -> None:
        with self._database.write() as connection:
            connection.execute(sa.delete(SavedView).where(SavedView.page == page, SavedView.name == name))
