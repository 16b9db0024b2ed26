"""The command as a separate process with real workers: signals and exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli.run import ROOT
from storage import Store
from tests.support.command_line import write_config

pytestmark = pytest.mark.timeout(300)  # three interpreters load torch, on a machine that may be busy

LONG = {"training": {"rounds": 100_000, "local_steps": 1}, "evaluation": {"every": 500}, "seeds": [0, 1]}


def start(*words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "engine", *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FEDSCAPE_SLOTS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_cancels_and_exports_the_runs_and_exits_130(tmp_path: Path, database_url: str) -> None:
    store = Store(database_url)
    store.ensure_schema()
    config = write_config(tmp_path, **LONG)
    with start("run", config, "--db", database_url, "--export", tmp_path / "out.json") as command:
        wait_until(lambda: any(run.round > 0 for run in store.queue.runs()))
        command.send_signal(signal.SIGINT)
        _, err = command.communicate()
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert command.returncode == 130 and "Traceback" not in err
    assert [run["status"] for run in runs] == ["cancelled", "cancelled"] and len(runs[0]["rounds"]) > 1
    assert {run.status for run in store.queue.runs()} == {"cancelled"} and not store.dispatcher_is_running()


@pytest.mark.slow
def test_with_another_dispatcher_the_command_queues_and_follows(tmp_path: Path, database_url: str) -> None:
    store = Store(database_url)
    store.ensure_schema()
    with start("worker", "--db", database_url) as worker:
        wait_until(store.dispatcher_is_running)
        with start("run", write_config(tmp_path), "--db", database_url, "--export", tmp_path / "out.json") as command:
            _, err = command.communicate()
        worker.send_signal(signal.SIGTERM)
        worker.communicate()
    assert (command.returncode, worker.returncode) == (0, 0) and "done, round 2 of 2" in err
    assert json.loads((tmp_path / "out.json").read_text())["runs"][0]["status"] == "done"


@pytest.mark.slow
def test_a_closed_pipe_changes_neither_runs_nor_export_nor_exit_code(tmp_path: Path, database_url: str) -> None:
    with start("run", write_config(tmp_path), "--db", database_url, "--export", tmp_path / "out.json") as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.close()
        command.stderr.close()
        assert command.wait() == 0
    assert json.loads((tmp_path / "out.json").read_text())["runs"][0]["status"] == "done"


def test_an_unknown_option_does_not_import_torch() -> None:
    code = "import sys, engine.cli.arguments as a; a.parser(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
