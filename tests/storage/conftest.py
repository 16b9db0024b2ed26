"""A fresh store for each test: a copy of one empty SQLite file, or the PostgreSQL database of TEST_POSTGRES_URL."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import RunRecord, Store
from storage.models import Base
from tests.storage.samples import new_run

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")
BACKENDS = ["sqlite", "postgres"] if POSTGRES_URL else ["sqlite"]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "empty.db"
    store = Store(f"sqlite:///{path}")
    store.ensure_schema()
    store.close()
    return path


@pytest.fixture
def sqlite_store(empty_database: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(empty_database, tmp_path / "fedscape.db")
    store = Store(f"sqlite:///{tmp_path / 'fedscape.db'}")
    yield store
    store.close()


@pytest.fixture
def postgres_store(tmp_path: Path) -> Iterator[Store]:
    store = Store(POSTGRES_URL or "", artifacts=tmp_path / "artifacts")
    store.ensure_schema()
    with store._database.write() as connection:
        connection.execute(sa.text(f"TRUNCATE {', '.join(Base.metadata.tables)}"))
    yield store
    store.close()


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest) -> Store:
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def run(store: Store) -> RunRecord:
    """One run, claimed."""
    store.experiments.create("one run", {}, [new_run()])
    claimed = store.queue.claim()
    assert claimed is not None
    return claimed
