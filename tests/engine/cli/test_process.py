"""The command as a separate process with real workers: signals and exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.cli.run import ROOT
from storage import RunRecord, Store
from tests.support.command_line import write_config

pytestmark = pytest.mark.timeout(300)  # three interpreters load torch, on a machine that may be busy

LONG = {
    "training": {"rounds": 100_000, "local_steps": 1},
    "evaluation": {"every": 500},
    "seeds": [0, 1],
    "checkpoint_s": 0.1,
}


def start(*words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "engine", *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FEDSCAPE_SLOTS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def last_checkpoint(store: Store, run: RunRecord) -> int:
    """The round that the run would continue from."""
    checkpoint = store.artifacts.latest(run.id, "checkpoint")
    return checkpoint.round if checkpoint else 0


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


@pytest.fixture
def worker(database_url: str) -> "Iterator[subprocess.Popen[str]]":
    with start("worker", "--db", database_url) as worker:
        yield worker
        worker.kill()


@pytest.mark.slow
def test_commands_follow_another_dispatcher_and_take_over_when_it_ends(
    tmp_path: Path, database_url: str, worker: "subprocess.Popen[str]"
) -> None:
    """Meanwhile, closed pipes change nothing, and Ctrl-C cancels and exports the runs and exits with 130."""
    store = Store(database_url)
    store.ensure_schema()
    wait_until(store.dispatcher_is_running)
    with start("run", write_config(tmp_path), "--db", database_url, "--export", tmp_path / "a.json") as command:
        assert command.stdout is not None
        command.stdout.close()
        _, err = command.communicate()
    assert command.returncode == 0 and "done, round 2 of 2" in err
    (run,) = json.loads((tmp_path / "a.json").read_text())["runs"]
    assert run["status"] == "done" and [one.epoch for one in store.queue.runs()] == [1]

    config = write_config(tmp_path, **LONG)
    with start("run", config, "--db", database_url, "--export", tmp_path / "b.json") as command:
        assert command.stderr is not None
        command.stderr.close()
        wait_until(lambda: any(last_checkpoint(store, run) > 0 for run in store.queue.runs()))
        worker.send_signal(signal.SIGTERM)
        worker.communicate()
        wait_until(lambda: any(run.epoch == 2 for run in store.queue.runs()))
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate()
    runs = json.loads((tmp_path / "b.json").read_text())["runs"]
    assert (command.returncode, worker.returncode) == (130, 0) and out.count("cancelled") == 2
    assert [run["status"] for run in runs] == ["cancelled", "cancelled"] and len(runs[0]["rounds"]) > 1
    assert store.queue.counts() == {"done": 1, "cancelled": 2} and not store.dispatcher_is_running()


def test_an_unknown_option_does_not_import_torch() -> None:
    code = "import sys, engine.cli.arguments as a; a.parser(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
