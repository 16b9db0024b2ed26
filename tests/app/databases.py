"""Databases of tests: a copy for each test, or one that many tests read."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage import Store


def copied(source: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A copy of ``source`` at ``path``, including rows that are still in SQLite's log. DATABASE_URL points to it."""
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(path)) as copy:
        original.backup(copy)
    yield from _opened(path, monkeypatch)


def read(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The file itself, for tests that write nothing: they share it, and what the pages cache of it.

    A test that writes fails at its end. DATABASE_URL points to the file.
    """
    before = _content(file)
    yield from _opened(file, monkeypatch)
    assert _content(file) == before, "this test has written to a shared database; give it a copy"


def _opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{path}")
    with closing(Store(f"sqlite:///{path}")) as store:
        yield store


def _content(file: Path) -> list[object]:
    """The database with its log, and the names of its artifacts."""
    parts = [path.read_bytes() for path in (file, file.with_name(f"{file.name}-wal")) if path.exists()]
    return [*filter(None, parts), *sorted(file.with_name("artifacts").rglob("*"))]
