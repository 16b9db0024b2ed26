"""Databases for the pages: one without runs, one with a finished experiment. DATABASE_URL points to them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.app.samples import DIGITS, store_experiment


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("app") / "empty.db"
    store = Store(f"sqlite:///{path}")
    store.ensure_schema()
    store.close()
    return path


@pytest.fixture(scope="session")
def filled_file(empty_file: Path) -> Path:
    path = empty_file.with_name("filled.db")
    shutil.copy(empty_file, path)
    store = Store(f"sqlite:///{path}")
    store_experiment(store, DIGITS)
    store.close()
    return path


@pytest.fixture
def empty_store(empty_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Tables without rows."""
    yield from _copy(empty_file, tmp_path, monkeypatch)


@pytest.fixture
def filled_store(filled_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Four methods on digits, 10 clients, 5 rounds, 2 seeds: runs 1 to 8 of experiment 1, all done."""
    yield from _copy(filled_file, tmp_path, monkeypatch)


def _copy(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Copies the file, so that each test can write to its own."""
    path = folder / "fedscape.db"
    shutil.copy(source, path)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{path}")
    store = Store(f"sqlite:///{path}")
    yield store
    store.close()
