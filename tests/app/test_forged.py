"""Forged files are refused with one line, or imported so that every page still opens. Nothing else is changed."""

import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from app.actions import exchange
from app.library import sources
from engine.core.errors import InvalidConfig
from engine.core.findings import Findings
from storage import StorageError, Store
from tests.app.pages import open_page
from tests.app.samples import store_experiment
from tests.storage.samples import new_run
from tests.support import forging
from tests.support.command_line import Call, make_call

SMALL: dict[str, Any] = {
    "name": "four clients",
    "dataset": {"name": "digits"},
    "model": {"name": "mlr"},
    "seeds": [0],
    "partition": {"name": "classes_per_client", "num_clients": forging.N, "classes_per_client": 5},
    "training": {"rounds": 3, "local_steps": 1},
    "algorithms": [{"name": "cgpfl", "K": 2}, {"name": "fedavg"}],
}


class Good(NamedTuple):
    """The members of the valid archives from which the forged ones are made."""

    bundle: forging.Parts
    backup: forging.Parts


@pytest.fixture(scope="module")
def good(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Good:
    folder = tmp_path_factory.mktemp("good")
    shutil.copy(empty_file, folder / "good.db")
    store = Store(f"sqlite:///{folder / 'good.db'}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", store.url)
        store_experiment(store, SMALL)
        for run_id in (1, 2):
            for kind in ("model-last", "model-best"):
                data = forging.models(initial_w=(3,), personalized_w=(forging.N, 3))
                store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, kind, 3, data))
            store.analyses.request(run_id, "confusion", {})
            analysis = store.analyses.claim()
            assert analysis is not None
            found = Findings({"personalized": np.ones((forging.N, 10, 10), np.int32)}).to_bytes()
            file = store.artifacts.write_file(run_id, "analysis-confusion", 3, found)
            store.analyses.finish(analysis.id, analysis.epoch, "done", result=file)
            store.events.add(run_id, "info", "note", "it went well")
        (folder / "bundle.zip").write_bytes(exchange.bundle_of([1, 2]))
        store.back_up(folder / "backup.zip", "1")
    store.close()
    return Good(parts(folder / "bundle.zip"), parts(folder / "backup.zip"))


def parts(path: Path) -> forging.Parts:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


class Place(NamedTuple):
    """A database with a run and its models, and a folder outside that must not be touched."""

    root: Path
    store: Store
    call: Call

    def state(self) -> list[Any]:
        """All files and the content of the database. Only lock files may appear and disappear."""
        self.store.close()
        files = [
            (path, path.lstat().st_mode, path.read_bytes())
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path.suffix != ".lock" and path.name != "mine.db"
        ]
        with closing(sqlite3.connect(self.root / "data" / "mine.db")) as connection:
            return [files, list(connection.iterdump())]


@pytest.fixture(scope="module")
def kept(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a place that all refused files leave as it was."""
    root = tmp_path_factory.mktemp("kept") / "root"
    furnish(root, empty_file)
    return root


@pytest.fixture
def kept_place(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    yield from place_in(kept, monkeypatch, capsys)


@pytest.fixture
def place(
    empty_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    furnish(tmp_path / "root", empty_file)
    yield from place_in(tmp_path / "root", monkeypatch, capsys)


def furnish(root: Path, empty_file: Path) -> None:
    (root / "data").mkdir(parents=True)
    (root / "beside").mkdir()
    (root / "beside" / "canary.bin").write_bytes(b"precious")
    shutil.copy(empty_file, root / "data" / "mine.db")
    with closing(Store(f"sqlite:///{root / 'data' / 'mine.db'}")) as store:
        store.experiments.create("mine", {}, [new_run()])
        run = store.queue.claim()
        assert run is not None
        file = store.artifacts.write_file(run.id, "model-last", 0, b"mine")
        store.artifacts.register(run.id, run.epoch, file)
        store.queue.finish(run.id, run.epoch, "done")


def place_in(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    call = make_call(monkeypatch, capsys, root / "data")
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{root / 'data' / 'mine.db'}")
    with closing(Store(f"sqlite:///{root / 'data' / 'mine.db'}")) as store:
        yield Place(root, store, call)


def is_refused(place: Place, path: Path, *words: object) -> None:
    before = place.state()
    code, out, err = place.call(*words)
    assert (code, out) == (2, ""), (code, out, err)
    assert 0 < len(err.splitlines()) <= 11 and all(len(line) < 1200 for line in err.splitlines()), err
    assert "Traceback" not in err and "unexpected" not in err and "\x1b" not in err
    assert "forged" in err or "runs.json" in err or str(path) in err
    place.store.artifacts.sweep()
    assert place.state() == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "forged").mkdir()
    return tmp_path / "forged"


@pytest.mark.parametrize("name", forging.EXPORTS)
def test_a_forged_export_is_refused(good: Good, kept_place: Place, folder: Path, name: str) -> None:
    path = forging.EXPORTS[name](good.bundle, folder)
    is_refused(kept_place, path, "import", path)


@pytest.mark.parametrize("name", [*forging.ARCHIVES, *forging.BUNDLES])
def test_a_forged_bundle_is_refused(good: Good, kept_place: Place, folder: Path, name: str) -> None:
    path = (forging.ARCHIVES | forging.BUNDLES)[name](good.bundle, folder)
    is_refused(kept_place, path, "import", path)


@pytest.mark.parametrize("name", [*forging.ARCHIVES, *forging.BACKUPS])
@pytest.mark.slow
def test_a_forged_backup_is_refused(good: Good, kept_place: Place, folder: Path, name: str) -> None:
    path = (forging.ARCHIVES | forging.BACKUPS)[name](good.backup, folder)
    is_refused(kept_place, path, "restore", path, "--replace")


@pytest.mark.parametrize("name", ["versions are text", "not a number", "cut short", "no text"])
def test_the_library_reports_problems_of_an_export(good: Good, kept_place: Place, folder: Path, name: str) -> None:
    data = forging.EXPORTS[name](good.bundle, folder).read_bytes()
    with pytest.raises(InvalidConfig, match=r"runs\.json"):
        sources.read("runs.json", data, lambda number, of: None)


@pytest.mark.parametrize("name", ["a name above", "a bomb", "members that overlap", "invalid models"])
def test_the_library_reports_problems_of_a_bundle(good: Good, kept_place: Place, folder: Path, name: str) -> None:
    data = (forging.ARCHIVES | forging.BUNDLES)[name](good.bundle, folder).read_bytes()
    before = kept_place.state()
    with pytest.raises((InvalidConfig, StorageError)):
        sources.read("forged.zip", data, lambda number, of: None)
    assert kept_place.state() == before


# Cases with one of these words change only diagnostics, which Compare and the record tab do not read.
DIAGNOSTICS = ("layers", "terms", "distances", "custom", "uploads")
DRAWN_ON = {  # part of a case's name -> the tab of Inside a run that draws the changed values
    "cluster": "clusters",
    "context": "clusters",
    "round": "clients",
    "measured": "clients",
    "samples": "clients",
    "layers": "layers",
    "terms": "clusters",
    "distances": "clusters",
    "custom": "layers",
    "seconds": "profile",
    "uploads": "uploads",
}


@pytest.mark.parametrize("name", forging.ACCEPTED)
@pytest.mark.slow
def test_pages_that_draw_changed_values_open_on_accepted_files(
    good: Good, place: Place, folder: Path, name: str
) -> None:
    code, out, err = place.call("import", forging.ACCEPTED[name](good.bundle, folder))
    assert (code, err) == (0, "") and "2 runs imported" in out
    tabs = [tab for part, tab in DRAWN_ON.items() if part in name]
    if not any(part in name for part in DIAGNOSTICS):
        open_page("compare", experiment=2)
        tabs.append("record")
    for tab in dict.fromkeys(tabs):
        open_page("run", id=2, tab=tab)


@pytest.mark.slow
def test_a_valid_bundle_is_imported(good: Good, place: Place, folder: Path) -> None:
    assert place.call("import", forging.packed(folder, good.bundle)).code == 0
    open_page("library")
    open_page("library", runs="2,3")
    open_page("compare", experiment=2)
    open_page("run", id=3, tab="record")
    for tab in ("clients", "clusters", "landscape", "features", "layers", "profile", "record"):
        open_page("run", id=2, tab=tab)
    open_page("run", id=2, tab="clients", client=1)


@pytest.mark.slow
def test_a_valid_backup_is_restored(good: Good, place: Place, folder: Path) -> None:
    place.store.close()
    assert place.call("restore", forging.packed(folder, good.backup), "--replace").code == 0
    open_page("compare", experiment=1)
    for run_id in (1, 2):
        open_page("run", id=run_id)
