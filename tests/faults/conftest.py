"""A migrated store per test, and ways to break the disk and the database below it."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from engine.worker import retry
from storage import Store
from tests.worker.conftest import empty_database, store

__all__ = ["empty_database", "store"]


@contextmanager
def full_database(store: Store) -> Iterator[None]:
    """SQLite gets no further pages, as on a full disk."""

    def limit(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    with listening(store, limit):
        yield
    with store._database.read() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 4294967294")


@contextmanager
def listening(store: Store, listener: Callable[..., None]) -> Iterator[None]:
    """Calls ``listener`` at the beginning of every transaction."""
    sa.event.listen(store._database.engine, "begin", listener)
    try:
        yield
    finally:
        sa.event.remove(store._database.engine, "begin", listener)


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """The kernel lets no file of this process grow beyond the limit, not even for root."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def while_waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], list[float]]:
    """Replaces the pauses between retries by an action; returns the list of pauses."""

    def replace_pauses(action: Callable[[], Any]) -> list[float]:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            assert len(pauses) < 20, "too many retries"
            action()

        monkeypatch.setattr(retry.time, "sleep", pause)
        return pauses

    return replace_pauses
