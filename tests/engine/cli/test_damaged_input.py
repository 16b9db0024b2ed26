"""Whatever a configuration or file contains, the command line exits with 2 and a few short lines, without traces."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.cli.run import ROOT
from engine.config.schema import parse_experiment
from engine.core.errors import MAX_MESSAGE, MAX_PROBLEMS
from engine.core.registry import Entry
from tests.support.command_line import Call, make_call
from tests.support.damaged import (
    CHANGES,
    DATA,
    GOOD,
    LEGAL_TEXTS,
    SPECIAL,
    TEXTS,
    VALUES,
    WHOLE,
    every_options_class,
    write_data,
)

GIB = 2**30


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    return make_call(monkeypatch, capsys, tmp_path)


def refused(call: Call, folder: Path, *words: object) -> list[str]:
    """Checks that the command is refused and returns its lines on stderr."""
    before = _all_files(folder)
    code, out, err = call(*words)
    lines = err.splitlines()
    assert (code, out) == (2, "") and lines and "Traceback" not in err, err[:2000]
    assert len(lines) <= MAX_PROBLEMS + 1 and max(map(len, lines)) <= MAX_MESSAGE
    assert all(line.isprintable() for line in lines)
    assert _all_files(folder) == before, "a refused configuration leaves nothing behind"
    return lines


def _all_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def written(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "experiment.json"
    path.write_text(json.dumps(GOOD | changes))
    return path


@pytest.mark.parametrize("owner", VALUES)
@pytest.mark.slow
def test_an_invalid_value_of_an_option_is_refused(call: Call, tmp_path: Path, owner: str) -> None:
    for changes in VALUES[owner].values():
        refused(call, tmp_path, "run", written(tmp_path, changes))


@pytest.mark.parametrize("changes", WHOLE.values(), ids=WHOLE)
def test_an_invalid_experiment_is_refused(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr("engine.simulation.preflight.memory_bytes", lambda _: 8 * GIB)
    refused(call, tmp_path, "run", written(tmp_path, changes))


@pytest.mark.parametrize("name", ["experiment.yaml", "experiment.json"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_file_without_a_configuration_is_refused(call: Call, tmp_path: Path, text: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(text)
    refused(call, tmp_path, "run", tmp_path / name)


@pytest.mark.parametrize("text", LEGAL_TEXTS.values(), ids=LEGAL_TEXTS)
def test_unusual_but_valid_configurations_run(call: Call, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "experiment.yaml").write_bytes(text)
    assert call("run", tmp_path / "experiment.yaml", "--quiet").code == 0


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_invalid_change_is_refused(call: Call, tmp_path: Path, change: str) -> None:
    refused(call, tmp_path, "run", written(tmp_path, {}), "--set", change)


@pytest.mark.parametrize("name", [*DATA, *SPECIAL])
def test_a_file_without_data_is_refused(call: Call, tmp_path: Path, name: str) -> None:
    path = write_data(tmp_path, name)
    changes = {"dataset": {"name": "custom", "path": str(path)}, "partition": {"name": "iid", "num_clients": 2}}
    (line,) = refused(call, tmp_path, "run", written(tmp_path, changes))
    assert line.startswith(("dataset: ", "partition: "))


@pytest.mark.parametrize("name", ["pipe.csv", "endless.csv", "nothing", "dangling.csv"])
def test_a_special_file_is_refused_as_a_configuration(call: Call, tmp_path: Path, name: str) -> None:
    assert "cannot be read" in refused(call, tmp_path, "run", write_data(tmp_path, name))[0]


@pytest.mark.parametrize("name", ["pipe.csv", "endless.csv"])
def test_an_export_does_not_replace_a_pipe_or_a_device(call: Call, tmp_path: Path, name: str) -> None:
    path = write_data(tmp_path, name)
    assert "is a pipe or a device" in refused(call, tmp_path, "run", written(tmp_path, {}), "--export", path)[0]
    call("run", written(tmp_path, {}), "--quiet")
    assert "is a pipe or a device" in refused(call, tmp_path, "export", 1, "--output", path)[0]
    assert path.exists() and not path.is_file()


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--export", "x" * 201),
        ("--models", "x" * 201),
        ("--export", "folder/.."),
        ("--export", "a\0b"),
        ("--models", "a\0b"),
        ("--export", "experiment.json/x"),
        ("--models", "experiment.json/x"),
    ],
)
def test_an_unwritable_folder_is_refused_before_anything_runs(
    call: Call, tmp_path: Path, option: str, place: str
) -> None:
    refused(call, tmp_path, "run", written(tmp_path, {}), option, place)


@pytest.mark.parametrize("url", ["sqlite:///a\0b", "sqlite:///\udcff.db", f"sqlite:///{'x' * 300}", "x" * 5000])
def test_an_impossible_database_path_is_refused(call: Call, tmp_path: Path, url: str) -> None:
    refused(call, tmp_path, "runs", "--db", url)


def test_every_number_of_a_configuration_is_bounded() -> None:
    open_ended = [
        f"{name}.{parameter.name}"
        for name, options, _ in every_options_class()
        for parameter in Entry(name, "", "", options, options).parameters
        if {"int", "float"} & set(parameter.type.split("|")) and None in (parameter.minimum, parameter.maximum)
    ]
    assert open_ended == []


def test_the_largest_experiments_are_valid() -> None:
    """A million clients, a million rounds, ten thousand runs."""
    large = GOOD | {"partition": {"name": "iid", "num_clients": 1_000_000}, "training": {"rounds": 1_000_000}}
    assert len(parse_experiment(large | {"seeds": list(range(10_000))}).runs()) == 10_000


LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({6 * GIB}, {6 * GIB}))
from engine.cli.arguments import parser
from engine.cli.run import main
for path in sys.argv[2:]:
    assert main(parser().parse_args(["run", path, "--db", sys.argv[1]])) == 2
"""


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_the_command_stays_within_its_memory_limit(tmp_path: Path) -> None:
    endless = write_data(tmp_path, "endless.csv")
    hypernetwork = written(tmp_path, next(changes for name, changes in WHOLE.items() if name.startswith("a hypernet")))
    command = [sys.executable, "-c", LIMITED, f"sqlite:///{tmp_path}/runs.db", str(endless), str(hypernetwork)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=240)
    assert (ended.returncode, ended.stdout) == (0, "") and "Traceback" not in ended.stderr, ended.stderr
    assert ended.stderr.count("\n") == 2 and not (tmp_path / "runs.db").exists()
