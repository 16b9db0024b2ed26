"""What the commands do if nothing goes wrong."""

import csv
import json
import signal
from functools import partial
from pathlib import Path

import pytest
import safetensors.numpy
import yaml

import engine.cli.run
from engine.config.presets import load_preset
from engine.config.schema import ExperimentConfig
from engine.export.document import joint_config
from storage import Store
from tests.support.command_line import DIGITS, Call, make_call, write_config


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    return make_call(monkeypatch, capsys, tmp_path)


def test_a_run_is_stored_and_exported(call: Call, tmp_path: Path) -> None:
    assert call("run", write_config(tmp_path, seeds=[0, 1]), "--export", "out.json").code == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["config"] == DIGITS | {"seeds": [0, 1]}
    assert [(r["seed"], r["status"], len(r["rounds"])) for r in document["runs"]] == [(0, "done", 3), (1, "done", 3)]
    assert len(Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs()) == 2


def test_set_changes_the_configuration_in_the_export(call: Call, tmp_path: Path) -> None:
    changes = ("--set", "training.rounds=1", "--set", "algorithms.0.finetune_steps=2", "--set", "training.lr=1e-3")
    call("run", write_config(tmp_path), *changes, "--export", "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["config"]["training"] == {"rounds": 1, "local_steps": 1, "lr": 0.001}
    assert document["runs"][0]["hparams"] == {"finetune_steps": 2}


def test_progress_goes_to_stderr_and_quiet_prints_nothing(call: Call, tmp_path: Path) -> None:
    assert "fedavg seed 0: done, round 2 of 2, accuracy" in call("run", write_config(tmp_path)).err
    assert call("run", write_config(tmp_path), "--quiet") == (0, "", "")


def test_models_are_loadable_state_dicts(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path, algorithms=[{"name": "fedavg", "label": "a/b"}]), "--models", "models")
    folder = tmp_path / "models" / "a_b-seed0"
    names = {path.stem for path in folder.iterdir()}
    assert names == {"initial", "global", "personalized-0", "personalized-1", "personalized-2"}
    weights = safetensors.numpy.load_file(folder / "personalized-2.safetensors")
    assert sorted(value.shape for value in weights.values()) == [(10,), (10, 64)]


def test_a_clustered_method_saves_one_file_per_client(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path, algorithms=[{"name": "cgpfl", "K": 2}]), "--models", "models")
    names = {path.stem for path in (tmp_path / "models" / "cgpfl-seed0").iterdir()}
    assert {"global-0", "global-1", "global-2"} < names and "global" not in names


@pytest.mark.slow
def test_models_of_runs_with_equal_names_have_separate_files(call: Call, tmp_path: Path) -> None:
    for _ in range(2):
        call("run", write_config(tmp_path, name=".."), "--quiet")
    assert call("export", 1, 2, "--format", "models", "--output", "out/models").code == 0
    folders = {path.parent.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("initial.*")}
    assert folders == {"models/_/fedavg-seed0-run1", "models/_/fedavg-seed0-run2"}


def test_an_import_distinguishes_experiments_with_equal_names(call: Call, tmp_path: Path) -> None:
    for rounds in (1, 2):
        call("run", write_config(tmp_path, training={"rounds": rounds, "local_steps": 1}), "--quiet")
    call("export", 2, 1, "--output", "a.json")
    lines = call("import", "a.json").out.splitlines()
    assert lines == ["tiny: 1 run imported, ids 3", "tiny: 1 run imported, ids 4"]
    runs = Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs(run_ids=[3, 4], newest_first=False)
    assert [(run.round, run.rounds) for run in runs] == [(2, 2), (1, 1)]


@pytest.mark.slow
def test_without_indices_runs_are_assigned_to_experiments_by_name(call: Call, tmp_path: Path) -> None:
    for _ in range(2):
        call("run", write_config(tmp_path), "--quiet")
    call("export", 1, 2, "--output", "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert [run.pop("experiment_index") for run in document["runs"]] == [0, 1]
    document["runs"][0]["summary"] = {"personalized": {"mean": 7.0}}
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert call("import", "a.json").code == 0
    stored = Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs(newest_first=False)
    assert [run.experiment_id for run in stored] == [1, 2, 3, 4]
    assert stored[2].summary == stored[0].summary


def test_a_preset_with_two_experiments_exports_and_saves_both(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [DIGITS | {"name": name} for name in ("one", "two")]
    preset = {"name": "both", "title": "t", "source": "s", "scales": {"quick": configs}}
    (tmp_path / "both.yaml").write_text(yaml.safe_dump(preset))
    monkeypatch.setattr("engine.cli.inputs.load_preset", partial(load_preset, folder=tmp_path))
    assert call("run", "--preset", "both", "--export", "out.json", "--models", "models").code == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["config"] == joint_config(configs)
    assert [run["experiment"] for run in document["runs"]] == ["one", "two"]
    assert (tmp_path / "models" / "two" / "fedavg-seed0" / "global.safetensors").exists()


def test_a_diverged_run_is_exported_with_its_rounds_and_exits_4(call: Call, tmp_path: Path) -> None:
    ditto = [{"name": "ditto", "lam": 1e6}, {"name": "fedavg"}]
    config = write_config(tmp_path, algorithms=ditto, training={"rounds": 9, "lr": 1e6})
    code, _, err = call("run", config, "--export", "out.json")
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert code == 4 and runs[0]["status"] == "diverged" and 2 <= len(runs[0]["rounds"]) <= 9
    assert "not finite" in runs[0]["provenance"]["error"] and "Ditto" not in err and "Traceback" not in err


def test_a_failed_run_exits_3_even_if_another_diverged(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of paper")

    monkeypatch.setattr("engine.algorithms.fedprox.FedProx.round", fail)
    config = write_config(tmp_path, algorithms=["ditto", "fedprox"], training={"rounds": 9, "lr": 1e9})
    code, _, err = call("run", config, "--export", "out.json")
    statuses = [run["status"] for run in json.loads((tmp_path / "out.json").read_text())["runs"]]
    assert code == 3 and statuses == ["diverged", "failed"] and "Traceback" not in err


def test_ctrl_c_before_the_first_run_leaves_nothing_queued(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queue_and_interrupt(store: Store, experiment: ExperimentConfig) -> list[int]:
        run_ids = queue(store, experiment)
        signal.raise_signal(signal.SIGINT)
        return run_ids

    queue = engine.cli.run._queue
    monkeypatch.setattr(engine.cli.run, "_queue", queue_and_interrupt)
    assert call("run", write_config(tmp_path, seeds=[0, 1])).code == 130
    runs = Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs()
    assert [(run.status, run.epoch) for run in runs] == [("cancelled", 0), ("cancelled", 0)]


@pytest.mark.parametrize("kind", ["algorithms", "datasets", "partitioners", "models", "metrics", "presets"])
def test_lists_have_names_titles_and_sources(call: Call, kind: str) -> None:
    rows = json.loads(call("list", kind, "--json").out)
    assert rows and all(row["name"] and row["title"] and row["paper"] for row in rows)
    lines = call("list", kind).out
    assert all(row["name"] in lines for row in rows)


def test_defaults_are_listed_as_a_configuration_has_them(call: Call) -> None:
    assert "alpha=null" in call("list", "partitioners").out and "average=true" in call("list", "algorithms").out


def test_stored_runs_are_exported_as_tables(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path, seeds=[0, 1]))
    assert call("export", 1, 2, "--format", "csv", "--output", "t.csv").out == "wrote t.csv and t-clients.csv\n"
    with open(tmp_path / "t.csv") as rounds, open(tmp_path / "t-clients.csv") as clients:
        assert [(row["seed"], row["round"]) for row in csv.DictReader(rounds)] == [(s, r) for s in "01" for r in "012"]
        assert len(list(csv.DictReader(clients))) == 2 * 3 * 3
    assert call("export", 1, "--format", "parquet").out == "wrote tiny.parquet and tiny-clients.parquet\n"


@pytest.mark.slow
def test_exporting_an_import_gives_the_same_file(call: Call, tmp_path: Path) -> None:
    algorithms = [{"name": "cgpfl", "K": 2}, {"name": "fedavg", "sweep": {"training.lr": [0.1, 0.2]}}]
    config = write_config(tmp_path, algorithms=algorithms)
    call("run", config, "--set", "partition.val_fraction=0.2", "--export", "a.json")
    assert call("import", "a.json").out == "tiny: 3 runs imported, ids 4 5 6\n"
    assert call("export", 4, 5, 6, "--output", "b.json").code == 0
    first, again = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    for run in again["runs"]:
        assert run["provenance"].pop("imported") is True
    assert again == first


def test_already_imported_runs_are_skipped_and_reported(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path), "--quiet", "--export", "a.json")
    assert call("export", 1, "--format", "bundle").out == "wrote tiny.zip\n"
    assert call("import", "tiny.zip").out == "tiny: 1 run imported, ids 2\n"
    left_out = "fedavg seed 0 is skipped: it was imported before, as run 2\n"
    assert call("import", "tiny.zip") == (0, "", left_out) == call("import", "a.json")
    models = {path.name for path in (tmp_path / "var" / "fedscape.db-artifacts" / "2").iterdir()}
    assert {name.split("-0")[0] for name in models} == {"model-last", "model-best"}
