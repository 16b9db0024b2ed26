"""A migrated store per test, copied from one empty SQLite file; a dispatcher with a fake executor."""

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.worker import Dispatcher
from storage import Store
from tests.worker.fakes import Clock, FakeExecutor
from tests.worker.samples import Undisturbed, compute, kinds, rows
from tests.worker.stopping import plugin, stopping

__all__ = ["plugin", "stopping"]


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


@pytest.fixture(scope="session")
def undisturbed_run(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Undisturbed]:
    """The results of an undisturbed tiny experiment, changed as in ``queue``."""

    @cache
    def computed(seed: int, **changes: Any) -> Undisturbed:
        path = shutil.copy(empty_database, tmp_path_factory.mktemp("undisturbed") / "fedscape.db")
        store = Store(f"sqlite:///{path}")
        run = compute(store, seeds__0=seed, **changes | {"checkpoint_s": 1000})
        undisturbed = Undisturbed(run, rows(store, run.id), kinds(store, run.id))
        store.close()
        return undisturbed

    return lambda seeds__0=0, **changes: computed(seeds__0, **changes)


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
