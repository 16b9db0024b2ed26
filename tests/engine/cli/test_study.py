"""A study on the command line: ``run`` computes it whole, ``study`` shows its choices."""

import json
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest
import yaml

from engine.cli import run
from engine.core.errors import InvalidConfig
from engine.worker import Ended, Ticket, study
from storage import Store
from tests.support.command_line import DIGITS, Call, ThisProcess, make_call

STUDY = DIGITS | {
    "partition": {"name": "iid", "num_clients": 3, "val_fraction": 0.25},
    "splits": [4],
    "tune": {"trials": 2},
}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    return make_call(monkeypatch, capsys, tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


def change(tmp_path: Path, *statements: str) -> None:
    """Executes SQL on the database of the commands."""
    with closing(Store(f"sqlite:///{tmp_path}/var/fedscape.db")) as store, store._database.write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.mark.slow
def test_a_study_is_run_to_its_end_exported_and_shown(call: Call, config: Path, tmp_path: Path) -> None:
    export = tmp_path / "out.json"
    assert call("run", config, "--export", export, "--quiet").code == 0
    document = json.loads(export.read_text())
    assert [choice["entry"] for choice in document["choices"]] == ["fedavg"]
    roles = [run["study"]["role"] for run in document["runs"]]
    assert roles.count("trial") == 2 and roles.count("final") >= 1
    shown = call("study", "1")
    lines = shown.out.splitlines()
    assert shown.code == 0 and lines[0].split()[:4] == ["method", "split", "chosen", "validation"]
    assert lines[1].split()[:3] == ["fedavg", "4", "trial"] and "of 2" in lines[1]
    assert shown.err.startswith("trials 2 of 2, final runs")
    (choice,) = json.loads(call("study", "1", "--json").out)
    assert (choice["entry"], choice["split"], choice["considered"]) == ("fedavg", 4, 2)
    assert set(choice["setting"]) == ({"lr"} if choice["trial"] else set())


def test_the_setting_of_a_choice_is_exact_in_json_and_short_in_the_table(
    call: Call, config: Path, tmp_path: Path
) -> None:
    call("run", config, "--quiet")
    change(tmp_path, "UPDATE choices SET trial = 1")
    with closing(Store(f"sqlite:///{tmp_path}/var/fedscape.db")) as store:
        lr = store.queue.get(2).config["training"]["lr"]
    (choice,) = json.loads(call("study", "1", "--json").out)
    assert choice["setting"] == {"lr": lr} and lr != float(f"{lr:.4g}")
    assert f"lr={lr:.4g}" in call("study", "1").out


@pytest.mark.parametrize(("changes", "run_ids"), [((), None), (("--set", "tune=null"), [1])])
def test_only_a_study_may_use_more_slots_than_it_has_runs_at_first(
    call: Call, config: Path, monkeypatch: pytest.MonkeyPatch, changes: Sequence[str], run_ids: list[int] | None
) -> None:
    def refuse(store: Store, run_ids: Collection[int] | None) -> NoReturn:
        raise InvalidConfig([f"slots for {run_ids}"])

    monkeypatch.setattr(run, "make_executor", refuse)
    assert f"slots for {run_ids}" in call("run", config, "--quiet", *changes).err


@pytest.mark.slow
def test_a_choice_whose_first_trial_was_deleted_is_shown_without_its_setting(
    call: Call, config: Path, tmp_path: Path
) -> None:
    call("run", config, "--quiet")
    change(tmp_path, "DELETE FROM runs WHERE id = 1")
    assert "deleted with its trial" in call("study", "1").out
    (choice,) = json.loads(call("study", "1", "--json").out)
    assert choice["setting"] is None


@pytest.mark.slow
def test_a_study_with_a_cancelled_trial_says_what_it_waits_for(call: Call, config: Path, tmp_path: Path) -> None:
    call("run", config, "--quiet")
    change(
        tmp_path,
        "DELETE FROM choices",
        "DELETE FROM runs WHERE position < 2",
        "UPDATE runs SET status = 'cancelled' WHERE id = 1",
    )
    assert "1 trial of fedavg was cancelled; retry it" in call("study", "1").err
    assert "retried as run" in call("retry", "1").out


def test_a_study_whose_method_was_removed_meanwhile_ends_with_the_reason_and_exit_code_3(
    call: Call, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(raw: dict) -> None:
        raise InvalidConfig(["algorithms.0.name: 'fedavg' is unknown"])

    monkeypatch.setattr(study, "parse_experiment", removed)
    ended = call("run", config, "--quiet")
    assert ended.code == 3 and "the study of experiment 1 cannot continue: algorithms.0.name: 'fedavg'" in ended.err


@pytest.mark.slow
def test_the_command_also_computes_a_trial_that_is_repeated_meanwhile(
    call: Call, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(f"sqlite:///{tmp_path}/var/fedscape.db")
    submit, poll, turns = ThisProcess.submit, ThisProcess.poll, []

    def submitting(self: ThisProcess, ticket: Ticket) -> None:
        submit(self, ticket)
        if ticket.run_id == 1:
            store.queue.rerun([1])

    def polling(self: ThisProcess, *wait_s: float) -> list[Ended]:
        turns.append(1)
        assert len(turns) < 50, "the command does not end"
        return poll(self, *wait_s)

    monkeypatch.setattr(ThisProcess, "submit", submitting)
    monkeypatch.setattr(ThisProcess, "poll", polling)
    assert call("run", config, "--quiet").code == 0
    assert {run.status for run in store.queue.runs()} == {"done"} and len(store.queue.runs()) >= 4
    store.close()


def test_an_experiment_that_is_no_study_is_named(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(yaml.safe_dump(DIGITS))
    call("run", path, "--quiet")
    shown = call("study", "1")
    assert shown.code == 2 and "experiment 1 is not a study: it has no `tune`" in shown.err
    assert call("study", "7").code == 2


def test_an_unfair_study_is_refused_before_anything_is_queued(call: Call, config: Path, tmp_path: Path) -> None:
    refused = call("run", config, "--set", "tune.seeds=0")
    assert refused.code == 2 and "trials and final runs would share a seed" in refused.err
    assert not (tmp_path / "var").exists() or not Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs()
