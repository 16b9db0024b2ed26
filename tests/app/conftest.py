"""Databases for the pages: one without runs, one with an experiment that is done. DATABASE_URL points to them."""

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.inside.tab import tabs
from app.stories import stories
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
    """Four methods on digits, 10 clients, 5 rounds, 2 seeds: runs 1 to 8, done, in experiment 1."""
    yield from _copy(filled_file, tmp_path, monkeypatch)


def _copy(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A file of its own for each test, so that it may write."""
    path = folder / "fedscape.db"
    shutil.copy(source, path)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{path}")
    store = Store(f"sqlite:///{path}")
    yield store
    store.close()


@pytest.fixture
def add_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """``add_file("app.inside", "mine", text)``: the package has one more file, ``mine.py``, during this test."""
    added: list[str] = []

    def add(package: str, name: str, text: str) -> None:
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / f"{name}.py").write_text(text, encoding="utf-8")
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(tmp_path / package)])
        monkeypatch.setattr(module, name, None, raising=False)  # the import sets it; so it is removed afterwards
        added.append(f"{package}.{name}")
        _forget_declared()

    yield add
    for name in added:
        sys.modules.pop(name, None)
    _forget_declared()


def _forget_declared() -> None:
    tabs.cache_clear()
    stories.cache_clear()
