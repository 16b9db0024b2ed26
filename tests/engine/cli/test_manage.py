"""Commands that manage stored runs: what they change, what they print, and what they leave unchanged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import manage
from engine.cli.arguments import WITHOUT_TORCH
from engine.cli.run import ROOT
from storage import Status, Store
from tests.storage.samples import new_run
from tests.support.command_line import Call, make_call


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    return make_call(monkeypatch, capsys, tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Runs 1 to 5: done, failed, paused, queued, running."""
    store = Store(f"sqlite:///{tmp_path}/var/fedscape.db")
    store.ensure_schema()
    runs = [new_run(seed, algorithm="fedavg", label="FedAvg", rounds=10) for seed in range(5)]
    store.experiments.create("five", {"name": "five"}, runs)
    ends: tuple[Status, ...] = ("done", "failed", "paused")
    claimed = [store.queue.claim([run_id]) for run_id in (1, 2, 3, 5)]
    for run, status in zip(claimed, ends, strict=False):
        assert run is not None
        if status == "paused":
            store.queue.request([run.id], "pause")
        summary = {"personalized": {"mean": 0.5}} if status == "done" else None
        error = "no luck" if status == "failed" else None
        store.queue.finish(run.id, run.epoch, status, error=error, summary=summary)
    return store


def status(store: Store, run_id: int) -> str:
    return store.queue.get(run_id).status


def test_runs_are_listed_oldest_first(call: Call, store: Store) -> None:
    code, out, _ = call("runs")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and lines[0] == ["id", "experiment", "run", "status", "round", "mean"]
    assert [(line[0], line[5]) for line in lines[1:]] == [
        ("1", "done"),
        ("2", "failed"),
        ("3", "paused"),
        ("4", "queued"),
        ("5", "running"),
    ]
    assert lines[1][-2:] == ["50.0", "%"]


def test_the_log_of_runs_has_their_events_and_names_the_run_if_there_are_several(call: Call, store: Store) -> None:
    store.events.add(2, "error", "traceback", "Traceback (most recent call last):\n  no luck")
    _, one, _ = call("log", 2)
    assert [line.split(maxsplit=3)[2:] for line in one.splitlines() if line.startswith("20")] == [
        ["info", "queued"],
        ["info", "started"],
        ["error", "failed at round 0: no luck"],
        ["error", "Traceback (most recent call last):"],
    ]
    _, two, _ = call("log", 1, 2)
    assert "run 2 (FedAvg seed 1): failed at round 0: no luck" in two and "run 1 (FedAvg seed 0): queued" in two
    assert call("log", 9).code == 2


@pytest.mark.parametrize("runs", ["running", "done"])
def test_runs_that_no_worker_computes_are_pointed_out(runs: str, call: Call, store: Store) -> None:
    _, _, err = call("runs", "--status", runs)
    assert err == ("no worker is running: start the app, or python -m engine worker\n" if runs == "running" else "")


def test_runs_with_a_status_are_listed_as_json(call: Call, store: Store) -> None:
    found = json.loads(call("runs", "--status", "failed", "--status", "queued", "--json").out)
    listed = [(run["id"], run["status"], run["error"]) for run in found]
    assert listed == [(2, "failed", "no luck"), (4, "queued", None)]
    assert found[0]["finished_at"] and found[1]["finished_at"] is None


def test_cancelling_reports_each_run_and_skips_finished_ones(call: Call, store: Store) -> None:
    code, out, err = call("cancel", 1, 3, 4, 5)
    assert code == 0 and out.splitlines() == [
        "run 3 (FedAvg seed 2): cancelled",
        "run 4 (FedAvg seed 3): cancelled",
        "run 5 (FedAvg seed 4): running, cancel requested",
    ]
    assert err.splitlines()[0] == "run 1 (FedAvg seed 0) is unchanged: done"
    assert err.splitlines()[1].startswith("no worker is running")


def test_pausing_and_resuming(call: Call, store: Store) -> None:
    assert call("pause", 4).out == "run 4 (FedAvg seed 3): paused\n"
    assert call("resume", 4, 3).out == "run 3 (FedAvg seed 2): queued\nrun 4 (FedAvg seed 3): queued\n"


def test_with_a_running_worker_there_is_no_advice_to_start_one(call: Call, store: Store) -> None:
    with store.try_dispatcher_lock():  # type: ignore[union-attr]
        assert call("resume", 3).err == ""


def test_a_failed_run_is_retried_as_a_new_run(call: Call, store: Store) -> None:
    code, out, err = call("retry", 2, 1)
    assert (code, out) == (0, "run 2 (FedAvg seed 1): retried as run 6\n")
    assert "run 1 (FedAvg seed 0) is unchanged: done" in err and status(store, 6) == "queued"


def test_an_unknown_id_changes_nothing(call: Call, store: Store) -> None:
    code, out, err = call("cancel", 4, 77)
    assert (code, out) == (2, "") and err.startswith("no run with id 77") and status(store, 4) == "queued"


def test_deleted_runs_can_be_restored(call: Call, store: Store) -> None:
    assert call("delete", 1, 2).out.startswith("2 runs deleted; undelete restores them")
    assert [line.split()[0] for line in call("runs").out.splitlines()] == ["id", "3", "4", "5"]
    assert {run["id"] for run in json.loads(call("runs", "--deleted", "--json").out)} == {1, 2}
    assert call("undelete", 2).out == "run 2 (FedAvg seed 1): failed\n"
    assert call("undelete", 2).code == 2 and status(store, 2) == "failed"


def test_a_running_run_is_not_deleted(call: Call, store: Store) -> None:
    code, _, err = call("delete", 1, 5)
    assert code == 2 and "cancel it" in err and status(store, 1) == "done"


def test_dropping_models_frees_disk_space(call: Call, store: Store) -> None:
    store.artifacts.register(1, None, store.artifacts.write_file(1, "model-last", 9, bytes(12_345)))
    assert "models       12.3 kB" in call("disk").out
    assert call("drop-models", 1, 5).out == "12.3 kB freed\n"
    assert "models       0 B" in call("disk").out


def test_a_backup_is_written_and_restored(call: Call, store: Store, tmp_path: Path) -> None:
    code, out, _ = call("backup", "b.zip")
    assert code == 0 and out.startswith("wrote b.zip: 5 runs, ")
    store.queue.rerun([1])
    store.close()
    code, out, err = call("restore", "b.zip")
    assert (code, out) == (2, "") and "has 6 runs; --replace" in err
    code, out, _ = call("restore", "b.zip", "--replace")
    restored, saved = out.splitlines()
    assert code == 0 and restored == "5 runs restored from b.zip" and len(store.queue.runs()) == 5
    url = next(word for word in saved.split() if word.startswith("DATABASE_URL=")).removeprefix("DATABASE_URL=")
    assert len(json.loads(call("runs", "--db", url, "--json").out)) == 6


@pytest.mark.slow
def test_the_url_of_a_replaced_database_opens_it_whatever_its_name(call: Call, store: Store, tmp_path: Path) -> None:
    call("backup", "b.zip")
    words = ("restore", "b.zip", "--replace", "--db", Store.url_of(tmp_path / "what?100%25.db"))
    call(*words)
    url = call(*words).out.strip().rpartition("DATABASE_URL=")[2]
    assert len(json.loads(call("runs", "--db", url, "--json").out)) == 5


def test_a_failed_backup_or_restore_prints_one_line(call: Call, store: Store, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for words in (("backup", "folder"), ("restore", "folder"), ("restore", "absent.zip")):
        code, out, err = call(*words)
        assert (code, out) == (2, "") and err.startswith(words[1]) and err.count("\n") == 1


def test_ctrl_c_stops_a_backup_without_traces(
    call: Call, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, version: str, tell: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "back_up", lambda self, *words: interrupted(*words))
    assert call("backup", "b.zip") == (130, "", "")


@pytest.mark.slow
def test_none_of_these_commands_imports_torch() -> None:
    assert set(manage.COMMANDS) == WITHOUT_TORCH
    code = "import sys, engine.cli.manage; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
