"""A migrated store for each test: a copy of one empty SQLite file."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "empty.db"
    store = Store(f"sqlite:///{path}")
    store.ensure_schema()
    store.close()
    return path


@pytest.fixture
def store(empty_database: Path, database_url: str) -> Iterator[Store]:
    shutil.copy(empty_database, database_url.removeprefix("sqlite:///"))
    store = Store(database_url)
    yield store
    store.close()
