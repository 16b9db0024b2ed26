"""What every test relies on: annotations that are checked, one torch thread, a database of its own."""

import os
import sys
from pathlib import Path

import jaxtyping

import tests.shapes  # noqa: F401  named in the string below

# Before anything of the engine is imported: from here on shapes and types in its signatures are checked at each call.
jaxtyping.install_import_hook("engine", "tests.shapes.checked")

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile("local", deadline=None, max_examples=25)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

WITHOUT_BROWSER = os.environ.get("BROWSER") == "0"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that asks for the browser is a browser test. They share a worker, so that there is one browser."""
    drives_browser = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
    for item in drives_browser:
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.xdist_group("browser"))
    if WITHOUT_BROWSER and drives_browser:
        config.hook.pytest_deselected(items=drives_browser)
        items[:] = [item for item in items if item not in drives_browser]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if WITHOUT_BROWSER:
        terminalreporter.section("BROWSER=0: THE BROWSER TESTS WERE LEFT OUT", red=True, bold=True)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'fedscape.db'}"


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> None:
    """No test reads or writes the runs, data sets and plugins of whoever runs it."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("FEDSCAPE_PLUGINS", raising=False)
    # AppTest leaves its script behind as __main__, which worker processes of a later test would import again.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
