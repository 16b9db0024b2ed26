"""Fixtures and settings of all tests: checked annotations, one torch thread, a separate database per test."""

import gc
import os

gc.disable()  # until all tests are collected: imported modules and collected tests stay until the end
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same tests on every machine; `make gpu` has those on a GPU
os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported: its kernels are computed with NumPy

import itertools
import logging
import sys
from collections.abc import Generator, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import tests.shapes

tests.shapes.install()  # before the engine is imported: shapes and types in its signatures are checked at each call

import hypothesis
import pytest
import torch
from xdist.scheduler import LoadScopeScheduling

from engine.core.registry import ALGORITHMS, ANALYSES, DATASETS, METRICS, MODELS, PARTITIONERS
from storage import Store, sqlite
from tests.support import postgres, statements
from tests.support.proxies import OLDEST_CADDY, caddy_program, nginx_program

torch.set_num_threads(1)
os.environ.setdefault("FEDSCAPE_THREADS", "1")  # in workers, too: on busy cores threads wait for one another
os.environ.setdefault("FEDSCAPE_NICE", "0")  # tests wait for workers

hypothesis.settings.register_profile("local", deadline=None, max_examples=25)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

SYNCHRONOUS = sqlite.SYNCHRONOUS
REGISTRIES = (ALGORITHMS, DATASETS, PARTITIONERS, MODELS, METRICS, ANALYSES)
NUMBERS = itertools.count()
WITHOUT_BROWSER = os.environ.get("BROWSER") == "0"
WITH_RAY = os.environ.get("RAY") == "1"  # in .ci/ray, which `make test RAY=1` runs after all others


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        _read_streamlit_settings()
        gc.freeze()
        gc.enable()
        _propagate_logs()


def _read_streamlit_settings() -> None:
    """Read .streamlit/config.toml. The first page would look for it in the current folder, which some tests change."""
    if settings := sys.modules.get("streamlit.config"):
        with chdir(Path(__file__).parents[1]):
            settings.get_config_options()


def _propagate_logs() -> None:
    """For each test, pytest adds its handlers to all loggers that do not propagate: a hundred of them."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use the browser."""
    drives_browser = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
    for item in drives_browser:
        item.add_marker(pytest.mark.browser)
    if WITHOUT_BROWSER:
        _leave_out(drives_browser, config, items)
    on_postgres = [item for item in items if item.get_closest_marker("postgres")]
    if postgres.missing():
        _leave_out(on_postgres, config, items)
    for program, found in (("nginx", nginx_program()), ("caddy", caddy_program())):
        if found is None:
            _leave_out([item for item in items if item.get_closest_marker(program)], config, items)
    if not WITH_RAY:
        _leave_out([item for item in items if item.get_closest_marker("ray")], config, items)
    _leave_out([item for item in items if item.get_closest_marker("gpu")], config, items)  # .ci/gpu runs them


# Part of a test's name -> the group in which it runs; the first match counts.
TOGETHER = {
    "postgres": "postgres",
    "tests/browser/": "browser",
    "worker/test_stopped.py": "engines",
    "worker/test_processes.py": "engines",
    "test_chaos.py": "engines",
    "cli/test_process.py": "engines",
    "test_dispatchers.py": "engines",
    "app/test_web_servers.py": "engines",
    "worker/test_seeds_together.py": "engines",
    "app/test_study_page.py": "study",
    "app/test_papers_study.py": "study",
    "app/test_handbook_page.py": "handbook",
    "app/test_inside_landscape.py": "landscape",
    "app/test_inside_clusters.py": "clusters",
    "app/test_papers_shipped.py": "shipped",
    "app/test_forged.py": "forged",
    "docs/test_python_api.py": "python api",
    "engine/privacy/": "accounting",
    "simulation/test_privacy.py": "accounting",
    "simulation/test_sample_privacy.py": "accounting",
    "channel/test_private_rounds.py": "accounting",
    "datasets/test_cifar.py": "torchvision",
    "datasets/test_idx.py": "torchvision",
}


class Together(LoadScopeScheduling):
    """Gives single tests to any free worker; a group goes to one worker, and first, because it takes longest.

    All browser tests share a browser and an app, those of PostgreSQL a server, those of torchvision and of privacy
    accounting an import, and those of some pages what takes seconds to compute. Tests that start whole engines run one
    after the other, so that they do not compete for the processors.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((group for part, group in TOGETHER.items() if part in nodeid), nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forgets what is finished, which xdist would count again after each test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return Together(config, log)


def _leave_out(unwanted: list[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        left_out = set(unwanted)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.markexpr == "not slow":
        terminalreporter.section("THE SLOW TESTS WERE LEFT OUT: make test SLOW=1 RUNS THEM", red=True, bold=True)
    if WITHOUT_BROWSER:
        terminalreporter.section("BROWSER=0: THE BROWSER TESTS WERE LEFT OUT", red=True, bold=True)
    if nginx_program() is None:
        terminalreporter.section("NO NGINX: THE TESTS BEHIND IT WERE LEFT OUT", red=True, bold=True)
    if caddy_program() is None:
        oldest = ".".join(map(str, OLDEST_CADDY))
        terminalreporter.section(f"NO CADDY >= {oldest}: THE TESTS BEHIND IT WERE LEFT OUT", red=True, bold=True)
    if not os.environ.get("RAY"):
        terminalreporter.section("RAY=1 IS NOT SET: THE TESTS OF THE RAY CLUSTER WERE LEFT OUT", red=True, bold=True)
    terminalreporter.section("THE TESTS ON A GPU WERE LEFT OUT: make gpu RUNS THEM", red=True, bold=True)
    if what := postgres.missing():
        terminalreporter.section(f"NO {what}: THE POSTGRESQL TESTS WERE LEFT OUT", red=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def _statements_compiled_once() -> Iterator[None]:
    """Each test has a database of its own, for which SQLAlchemy would compile all statements anew: half of its time."""
    with pytest.MonkeyPatch.context() as patch:
        statements.compile_once(patch.setattr)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """A killed process loses nothing that SQLite has not yet written to the disk; only a power cut does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "SYNCHRONOUS", "OFF")
        yield


@pytest.fixture
def waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite as in the app."""
    monkeypatch.setattr(sqlite, "SYNCHRONOUS", SYNCHRONOUS)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Like pytest's, which looks through the folders of all tests so far to number a new one."""
    path = tmp_path_factory.getbasetemp() / f"{next(NUMBERS)}-{request.node.originalname}"
    path.mkdir()
    return path


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'fedscape.db'}"


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> Iterator[None]:
    """Isolate each test from the user's runs, data sets and plugins, and from the calls of earlier tests."""
    tests.shapes.calls.clear()
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("FEDSCAPE_PLUGINS", raising=False)
    # AppTest leaves its script behind as __main__, which worker processes of a later test would import again.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    imported = len(sys.modules)
    yield
    if len(sys.modules) != imported:
        _forget_plugins()


def _forget_plugins() -> None:
    """Remove the entries that a test registered from its plugin files."""
    plugins = {name for name in sys.modules if name.startswith("fedscape_plugin_")}
    for name in plugins:
        del sys.modules[name]
    for registry in REGISTRIES if plugins else ():
        for name in plugins:
            registry.forget(name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A separate server, which a test may stop and start."""
    if postgres.programs() is None:
        pytest.skip("TEST_POSTGRES_URL is not ours to stop, and .ci/postgres finds no programs for a server of our own")
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """One database per session or pytest worker, on the server of TEST_POSTGRES_URL if that is set."""
    server_url = postgres.given_url() or request.getfixturevalue("postgres_server").url()
    with postgres.database(server_url, f"fedscape_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}") as url:
        yield url


@pytest.fixture
def postgres_store(postgres_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """Tables without rows. DATABASE_URL and ARTIFACTS_DIR point to it."""
    postgres.empty(postgres_database)
    monkeypatch.setenv("DATABASE_URL", postgres_database)
    monkeypatch.setenv("ARTIFACTS_DIR", str(tmp_path / "artifacts"))
    store = Store(postgres_database)
    yield store
    store.close()
