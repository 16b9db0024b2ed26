"""A migrated store for each test, a copy of one empty SQLite file; a dispatcher whose executor computes nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.worker import Dispatcher
from storage import Store
from tests.worker.fakes import Clock, FakeExecutor


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


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def dispatcher(store: Store, executor: FakeExecutor, clock: Clock) -> Iterator[Dispatcher]:
    with Dispatcher(store, executor, store.try_dispatcher_lock(), clock=clock) as dispatcher:
        yield dispatcher
