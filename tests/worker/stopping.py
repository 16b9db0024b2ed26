"""A plugin that stops one worker, as kill -STOP does, at a known point: mostly inside a write transaction."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.processes import FORK_SERVER, parts_of_app, process_tree
from tests.worker.engines import ROOT, state_of

PLUGIN = """
import multiprocessing
import os
import signal
from collections import Counter
from contextlib import suppress

import sqlalchemy as sa

import storage.analyses
import storage.metrics

FOLDER = os.path.dirname(__file__)
times = Counter()


def stop_if_requested(point):
    times[point] += 1
    request = os.path.join(FOLDER, point)
    with suppress(FileNotFoundError):
        if times[point] >= os.path.getsize(request):
            os.rename(request, os.path.join(FOLDER, f"stopped-{os.getpid()}"))
            os.kill(os.getpid(), signal.SIGSTOP)


def around(owner, name, before="", after=""):
    original = getattr(owner, name)

    def call(*args, **kwargs):
        stop_if_requested(before)
        answer = original(*args, **kwargs)
        stop_if_requested(after)
        return answer

    setattr(owner, name, call)


def before_a_commit(connection):
    if connection.get_execution_options().get("writes"):
        stop_if_requested("committing")


if multiprocessing.parent_process() is not None:  # in workers only
    from engine.worker.recorder import Recorder

    around(Recorder, "add", before="trained")
    around(storage.metrics, "insert_rounds", after="written")
    around(storage.analyses, "_update_owned", after="reported")
    sa.event.listen(sa.Engine, "commit", before_a_commit)
"""


class Stopping:
    """Stops workers, and knows which ones were stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: set[int] = set()

    def ask(self, point: str, time: int = 1) -> None:
        """Stops the first worker that reaches the point for the n-th time, and forgets those that were stopped before.

        Runs pass "written" with rounds, analyses "reported", and both "committing". Runs also pass "trained" after each
        round, outside of a transaction.
        """
        for earlier in self.folder.glob("stopped-*"):
            earlier.unlink()
        (self.folder / point).write_bytes(b"." * time)

    @property
    def stopped(self) -> list[int]:
        """Those that have stopped, even if they were killed or continued since."""
        pids = [int(path.name.rpartition("-")[2]) for path in self.folder.glob("stopped-*")]
        self._seen |= {pid for pid in pids if state_of(pid) not in ("R", "S", "D")}
        return [pid for pid in pids if pid in self._seen]


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The plugin's folder. All tests share a fork server that knows it: its start imports torch.

    So a test that starts workers in its own process takes the fixture ``stopping``, also if it stops none.
    """
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "stop.py").write_text(PLUGIN)
    kill_fork_server()
    yield folder
    kill_fork_server()


@pytest.fixture
def stopping(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stopping]:
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(plugin))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield Stopping(plugin)
    for pid in Stopping(plugin).stopped:
        if state_of(pid) == "T":  # its test has failed
            os.kill(pid, signal.SIGKILL)
    for file in plugin.iterdir():
        if file.is_file() and file.name != "stop.py":
            file.unlink()


def fork_server() -> int | None:
    """The pid of this process's fork server, if it runs."""
    servers = parts_of_app(process_tree(os.getpid()))[FORK_SERVER]
    return servers[0].pid if servers else None


def kill_fork_server() -> None:
    """The next fork server gets the current environment."""
    if (pid := fork_server()) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
