"""Pages only read files below DATA_DIR, and report files elsewhere like missing ones."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.actions import exchange, launch
from app.actions.uploads import save_upload
from app.data import allowed_paths, pools, queries
from app.library.bulk import ACTIONS, fitting
from app.live.requests import perform
from app.state.links import pack_config
from engine.config.schema import parse_experiment
from engine.core.errors import DataUnavailable, InvalidConfig
from engine.exchange.records import new_run
from storage import RunRecord, Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS
from tests.support.signing_in import MEMBER, OTHER, as_person, people_sign_in

ELSEWHERE = (
    "/etc/passwd",
    "/etc/shadow",
    "/no/such/file.csv",
    "pyproject.toml",
    "../own.csv",
    "data/../../own.csv",
    "~root/x.csv",
    "~nobody-has-this-name/x.csv",
    "~/x.csv",
    "absent.csv",
    "/dev/zero",
    "/",
    "x\0.csv",
)


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with ``own.npz`` and ``folder/own.npz``."""
    folder = tmp_path / "data"
    (folder / "folder").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for place in (folder, folder / "folder"):
        np.savez(place / "own.npz", x=rng.normal(size=(200, 4)), y=np.arange(200) % 4)
    (tmp_path / "own.csv").write_text("a,label\n1,0\n2,1\n")
    monkeypatch.setenv("DATA_DIR", str(folder))
    monkeypatch.delenv(allowed_paths.FLAG, raising=False)
    return folder


def config(path: str) -> dict[str, Any]:
    return DIGITS | {"dataset": {"name": "custom", "path": path}, "algorithms": ["fedavg"], "seeds": [0]}


@pytest.mark.parametrize("path", ELSEWHERE)
def test_a_file_elsewhere_is_refused_like_a_missing_one(path: str, data_dir: Path) -> None:
    problem = allowed_paths.problem({"name": "custom", "path": path})
    expected = allowed_paths.problem({"name": "custom", "path": str(data_dir / "absent.csv")})
    assert problem is not None and expected is not None
    assert re.sub(r"^path='[^']*'", "", problem) == re.sub(r"^path='[^']*'", "", expected)


@pytest.mark.parametrize("path", ["own.npz", "folder/own.npz", "folder", "{}/own.npz"])
def test_a_file_below_the_data_folder_is_read(path: str, data_dir: Path) -> None:
    assert allowed_paths.problem({"name": "custom", "path": path.format(data_dir)}) is None


def test_members_use_uploaded_files_and_nothing_else(
    empty_store: Store, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    for person in (MEMBER, OTHER):
        with as_person(MEMBER):
            path = save_upload("table.csv", b"a,label\n1,0\n2,1\n")
        with as_person(person):
            assert allowed_paths.problem({"name": "custom", "path": path}) is None
            assert allowed_paths.problem({"name": "custom", "path": str(data_dir / path)}) is None
            for other in (*ELSEWHERE, ".", "", "own.npz", "uploads", f"{Path(path).parent}", f"uploads/../{path}"):
                assert "upload it" in str(allowed_paths.problem({"name": "custom", "path": other})), other


def test_a_member_queues_runs_of_an_upload(empty_store: Store, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch)
    with as_person(MEMBER):
        made = launch.queue_experiment(
            parse_experiment(config(save_upload("own.npz", (data_dir / "own.npz").read_bytes())))
        )
    assert empty_store.experiments.owners(experiment_ids=[made.id]) == {MEMBER.name}


def test_a_data_folder_may_be_a_link(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(data_dir)
    monkeypatch.setenv("DATA_DIR", str(link))
    for folder in (link, data_dir):
        assert allowed_paths.problem({"name": "custom", "path": str(folder / "own.npz")}) is None


def test_other_data_sets_have_no_path() -> None:
    assert allowed_paths.problem({"name": "digits"}) is None


def test_the_environment_variable_allows_any_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, allows in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv(allowed_paths.FLAG, value)
        assert (allowed_paths.problem({"name": "custom", "path": "/etc/passwd"}) is None) is allows


def test_a_long_path_is_abbreviated() -> None:
    problem = allowed_paths.problem({"name": "custom", "path": "/x" * 5000})
    assert problem is not None and len(problem) < 500


def shown(path: str) -> str:
    return words(open_page("setup", config=pack_config(config(path)))).replace(path, "PATH")


def test_set_up_reports_files_elsewhere_like_missing_ones(empty_store: Store, tmp_path: Path) -> None:
    there, absent = shown(str(tmp_path / "own.csv")), shown(str(tmp_path / "oxn.csv"))
    assert there == absent and "no such file below DATA_DIR" in there


def test_set_up_draws_the_split_of_a_file_below_the_data_folder(empty_store: Store) -> None:
    page = open_page("setup", config=pack_config(config("own.npz")))
    assert not page.error and not page.button(key="queue").disabled


def test_runs_on_a_file_elsewhere_are_not_queued(empty_store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="no such file below DATA_DIR"):
        launch.queue_experiment(parse_experiment(config(str(tmp_path / "own.csv"))))
    assert empty_store.experiments.list() == []


def test_a_file_elsewhere_is_not_read_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = parse_experiment(config(str(tmp_path / "own.csv"))).runs()[0]
    monkeypatch.setenv(allowed_paths.FLAG, "1")
    assert pools.is_present(run.dataset) and pools.pool_of(run).num_classes == 2
    monkeypatch.delenv(allowed_paths.FLAG)
    assert not pools.is_present(run.dataset)
    with pytest.raises(DataUnavailable, match="no such file below DATA_DIR"):
        pools.pool_of(run)


@pytest.fixture
def imported(filled_store: Store, tmp_path: Path) -> RunRecord:
    """An imported run whose configuration names a file elsewhere."""
    document = json.loads(exchange.json_of([1]))
    document["config"]["dataset"] = {"name": "custom", "path": str(tmp_path / "own.csv")}
    document["runs"][0]["status"] = "failed"
    (found,) = exchange.import_bytes("made.json", json.dumps(document).encode()).experiments
    (run,) = queries.runs(experiment_ids=[found.id])
    return run


def test_an_imported_run_does_not_make_the_engine_read_a_file_elsewhere(
    imported: RunRecord, filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fitting(ACTIONS["rerun"], [imported]) == fitting(ACTIONS["retry"], [imported]) == []
    before = filled_store.queue.counts()
    perform("retry", [imported.id])
    assert filled_store.queue.counts() == before
    monkeypatch.setenv(allowed_paths.FLAG, "1")
    assert fitting(ACTIONS["rerun"], [imported]) == [imported.id]


def test_an_imported_run_with_models_offers_no_analysis_of_a_file_elsewhere(
    imported: RunRecord, filled_store: Store
) -> None:
    file = filled_store.artifacts.write_file(imported.id, "model-last", 5, b"models")
    filled_store.artifacts.register(imported.id, None, file)
    page = open_page("run", id=imported.id, tab="landscape")
    assert "no such file below DATA_DIR" in words(page)
    assert not [button for button in page.button if str(button.key).endswith("_ask")]


def test_a_run_queued_on_the_command_line_keeps_its_path(filled_store: Store, tmp_path: Path) -> None:
    runs = [new_run(run) for run in parse_experiment(config(str(tmp_path / "own.csv"))).runs()]
    filled_store.experiments.create("own", config("own"), runs)
    (run,) = queries.runs(statuses=["queued"])
    assert fitting(ACTIONS["rerun"], [run]) == [run.id]
