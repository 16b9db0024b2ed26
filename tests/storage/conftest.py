"""A fresh store per test: a copy of an empty SQLite file, or an empty PostgreSQL database."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import RunRecord, Store
from tests.storage.samples import new_run
from tests.support import postgres

BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


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


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest) -> Store:
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def blank_postgres(postgres_database: str) -> Iterator[str]:
    with postgres.blank_database(postgres_database, f"{sa.make_url(postgres_database).database}_blank") as url:
        yield url


@pytest.fixture(params=BACKENDS)
def blank_store(request: pytest.FixtureRequest, database_url: str) -> Iterator[Store]:
    """A store on a database without tables."""
    store = Store(database_url if request.param == "sqlite" else request.getfixturevalue("blank_postgres"))
    yield store
    store.close()


@pytest.fixture
def run(store: Store) -> RunRecord:
    """A claimed run."""
    store.experiments.create("one run", {}, [new_run()])
    claimed = store.queue.claim()
    assert claimed is not None
    return claimed
