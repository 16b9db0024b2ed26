"""Databases for the pages: one without runs, one with a finished experiment. DATABASE_URL points to them."""

import functools
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import local_script_runner

from app.inside.tab import tabs
from app.stories import stories
from storage import Store
from tests.app import databases
from tests.app.hostile import store_hostile
from tests.app.samples import DIGITS, store_experiment


@pytest.fixture(scope="session", autouse=True)
def _one_scan_for_components() -> Iterator[None]:
    """Each AppTest reads the metadata of every installed package, which takes half of a page's time: once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner, "scan_component_manifests", functools.cache(manifest_scanner.scan_component_manifests)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_compilation_of_scripts() -> Iterator[None]:
    """Each run of an AppTest compiles its script anew: once per file is enough."""
    get_bytecode = ScriptCache.get_bytecode
    with pytest.MonkeyPatch.context() as patch:
        compiled = functools.cache(lambda path, changed: get_bytecode(ScriptCache(), path))
        patch.setattr(ScriptCache, "get_bytecode", lambda cache, path: compiled(path, os.stat(path).st_mtime_ns))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_wait_for_a_script() -> Iterator[None]:
    """An AppTest asks a thousand times a second whether its script has ended, which slows the script down."""

    def wait(runner: local_script_runner.LocalScriptRunner, timeout: float) -> None:
        assert runner._script_thread is not None
        runner._script_thread.join(timeout)
        if runner._script_thread.is_alive():
            runner.request_stop()
            raise RuntimeError(f"the script of a page runs for longer than {timeout} s")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_script_runner, "require_widgets_deltas", wait)
        yield


@pytest.fixture(autouse=True)
def _rounds_are_not_timed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up times two rounds of each method that is chosen, a third of its time: only the tests of costs need that."""
    file = request.node.path.name
    if file.startswith("test_setup") and file != "test_setup_cost.py":
        from app.setup import cost  # imports torch

        monkeypatch.setattr(cost, "_one_round", lambda run, data, evaluated: cost.Timed(0.01, 1000, 1e6, 0.001))


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


@pytest.fixture(scope="session")
def hostile_file(empty_file: Path) -> Path:
    path = empty_file.with_name("hostile.db")
    with pytest.MonkeyPatch.context() as patch:
        for store in databases.copied(empty_file, path, patch):
            store_hostile(store)
    return path


@pytest.fixture(scope="session")
def study_file(empty_file: Path) -> Path:
    from tests.app.studies import compute, queue_study  # imports the worker

    path = empty_file.with_name("study.db")
    shutil.copy(empty_file, path)
    store = Store(f"sqlite:///{path}")
    queue_study(store)
    compute(store)
    store.close()
    return path


@pytest.fixture
def empty_store(empty_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Tables without rows."""
    yield from databases.copied(empty_file, tmp_path / "fedscape.db", monkeypatch)


@pytest.fixture
def filled_store(filled_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Four methods on digits, 10 clients, 5 rounds, 2 seeds: runs 1 to 8 of experiment 1, all done."""
    yield from databases.copied(filled_file, tmp_path / "fedscape.db", monkeypatch)


@pytest.fixture
def read_store(filled_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """As ``filled_store``, one for all tests that write nothing."""
    yield from databases.read(filled_file, monkeypatch)


@pytest.fixture
def hostile_store(hostile_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The runs of ``store_hostile``."""
    yield from databases.copied(hostile_file, tmp_path / "fedscape.db", monkeypatch)


@pytest.fixture
def read_hostile_store(hostile_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """As ``hostile_store``, one for all tests that write nothing."""
    yield from databases.read(hostile_file, monkeypatch)


@pytest.fixture
def study_store(study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """``STUDY``: three methods, two trials each on three splits, one seed: all ended, with choices and final runs."""
    yield from databases.copied(study_file, tmp_path / "study.db", monkeypatch)


@pytest.fixture
def read_study_store(study_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """As ``study_store``, one for all tests that write nothing."""
    yield from databases.read(study_file, monkeypatch)


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
