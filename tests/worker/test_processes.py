"""Real processes: workers and dispatchers are killed, and the results equal those of undisturbed runs."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.worker import Dispatcher, LocalExecutor
from engine.worker import dispatcher as dispatcher_module
from storage import RunRecord, Store
from tests.worker.engines import PATIENCE_S, ROOT, eventually, start_engine
from tests.worker.samples import compute, queue, rows

LONG = {"training__rounds": 300, "training__participation": 1.0, "checkpoint_s": 0.1}
ENDLESS = LONG | {"training__rounds": 100_000}
pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def worker_pid(run: RunRecord) -> int:
    return int((run.worker or "").rpartition(":")[2])


@pytest.fixture
def background(store: Store) -> Iterator[Callable[[], subprocess.Popen]]:
    """Starts dispatchers of the test's database as separate programs."""
    started: list[subprocess.Popen] = []

    def start(slots: int = 1) -> subprocess.Popen:
        started.append(start_engine(store, slots))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def has_checkpoint(store: Store, run_id: int) -> bool:
    run = store.queue.get(run_id)
    assert not run.is_finished, "the run was over before anything could happen to it"
    return bool(run.status == "running" and run.worker and store.artifacts.latest(run_id, "checkpoint"))


@pytest.mark.slow
def test_a_killed_worker_affects_no_other_and_its_run_equals_an_undisturbed_one(store, undisturbed_run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    undisturbed = undisturbed_run(**LONG)
    first, second = queue(store, **LONG, algorithms=[{"name": "ditto"}, {"name": "ditto", "label": "again"}])
    with Dispatcher(store, LocalExecutor(slots=2), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, first))
        os.kill(worker_pid(store.queue.get(first)), signal.SIGKILL)
        dispatcher.run(threading.Event(), until_idle=True)
    (event,) = store.events.list(first)
    assert event.kind == "worker-died"
    assert "killed by signal 9: most likely out of memory" in event.message
    assert store.events.list(second) == []
    for run_id in (first, second):
        assert store.queue.get(run_id).status == "done"
        assert rows(store, run_id) == undisturbed.rows
    assert store.queue.get(first).summary == undisturbed.run.summary


@pytest.mark.slow
def test_a_hanging_worker_is_killed_and_its_run_equals_an_undisturbed_one(store, undisturbed_run, monkeypatch):
    (run_id,) = queue(store, **LONG)
    executor = LocalExecutor(slots=1)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, run_id))
        with store._database.write():  # so that it stops outside of a transaction
            os.kill(worker_pid(store.queue.get(run_id)), signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(executor._watchdog, "hung_s", 0.5)
            eventually(lambda: dispatcher.step(0.02) or store.queue.get(run_id).epoch == 2)
        dispatcher.run(threading.Event(), until_idle=True)
    assert "no heartbeat" in store.events.list(run_id)[0].message
    assert store.queue.get(run_id).status == "done"
    assert rows(store, run_id) == undisturbed_run(**LONG).rows


@pytest.mark.slow
def test_workers_end_with_a_killed_dispatcher_and_the_next_one_resumes(store, undisturbed_run, background):
    (run_id,) = queue(store, **LONG)
    first = background()
    eventually(lambda: has_checkpoint(store, run_id))
    worker = worker_pid(store.queue.get(run_id))
    first.kill()
    eventually(lambda: not is_alive(worker))
    assert store.queue.get(run_id).status == "running"
    reached = store.queue.get(run_id).round
    second = background()
    eventually(lambda: store.queue.get(run_id).epoch == 2 and store.queue.get(run_id).round > reached)
    assert not store.queue.get(run_id).is_finished
    os.killpg(second.pid, signal.SIGKILL)  # all at once: dispatcher, fork server and worker
    second.wait()
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.get(run_id).epoch == 3
    assert rows(store, run_id) == undisturbed_run(**LONG).rows


@pytest.mark.slow
def test_a_waiting_dispatcher_takes_over_the_runs_of_a_terminated_one(store, background):
    (run_id,) = queue(store, **ENDLESS)
    first = background()
    eventually(lambda: has_checkpoint(store, run_id))
    worker = worker_pid(store.queue.get(run_id))
    second = background()
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    assert not is_alive(worker)
    eventually(lambda: store.queue.get(run_id).epoch == 2)
    assert [engine.pid for engine in store.engines.list()] == [second.pid]


@pytest.mark.parametrize(("control", "becomes"), [("cancel", "cancelled"), ("pause", "paused")])
def test_a_stopped_worker_is_killed_and_its_slot_is_used_again(store, control, becomes):
    (stuck,) = queue(store, **ENDLESS)
    (next_one,) = queue(store)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, stuck))
        with store._database.write():  # so that it stops outside of a transaction
            os.kill(worker_pid(store.queue.get(stuck)), signal.SIGSTOP)
        store.queue.request([stuck], control)
        dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.get(stuck).status == becomes
    assert store.queue.get(next_one).status == "done"


def test_a_running_run_yields_to_pages_and_obeys_a_request_without_being_killed(store, monkeypatch):
    monkeypatch.setenv("FEDSCAPE_NICE", str(os.getpriority(os.PRIO_PROCESS, 0) + 1))
    monkeypatch.setattr(dispatcher_module, "STOP_GRACE_S", PATIENCE_S)  # not killed before that
    rare = {"evaluation__every": ENDLESS["training__rounds"]}  # during an evaluation the previous checkpoint is used
    (run_id,) = queue(store, **ENDLESS, **rare)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, run_id))
        worker = worker_pid(store.queue.get(run_id))
        assert os.getpriority(os.PRIO_PROCESS, worker) == os.getpriority(os.PRIO_PROCESS, 0) + 1
        assert os.getsid(worker) == os.getsid(0)  # niceness counts only within a session
        store.queue.request([run_id], "pause")
        dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.get(run_id).status == "paused"
    assert store.artifacts.latest(run_id, "checkpoint").round == store.queue.get(run_id).round
    assert store.events.list(run_id) == []


SLOW = """
import os
import time
from dataclasses import dataclass

import numpy as np

from engine.analyses import AnalysisOptions
from engine.core.findings import Findings
from engine.core.registry import ANALYSES


@ANALYSES.register("slow", title="Slow", paper="of a test")
@dataclass(frozen=True)
class Slow:
    options: AnalysisOptions

    def compute(self, subject):
        open(os.path.join(os.path.dirname(__file__), f"pid-{os.getpid()}"), "w").close()
        while not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
            time.sleep(0.02)
            subject.progress(0.5)
        return Findings({"round": np.array(subject.round)})
"""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[int]]:
    """A plugin with an analysis ``slow`` that waits for a file ``go``; returns the workers that have started it."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "slow.py").write_text(SLOW)
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(folder))
    return lambda: [int(path.name[4:]) for path in folder.glob("pid-*")]


@pytest.mark.slow
def test_an_analysis_survives_a_killed_worker_and_can_be_cancelled(store, slow, background, tmp_path):
    run = compute(store)
    (endless,) = queue(store, **ENDLESS)
    kept = store.analyses.request(run.id, "slow", {"which": "last"})
    background(slots=1)
    eventually(slow)
    os.kill(slow()[0], signal.SIGKILL)
    eventually(lambda: len(slow()) == 2)
    (tmp_path / "plugins" / "go").touch()
    eventually(lambda: not store.analyses.get(kept.id).is_active)
    (tmp_path / "plugins" / "go").unlink()
    unwanted = store.analyses.request(run.id, "slow", {"which": "best"})
    eventually(lambda: store.analyses.get(unwanted.id).progress == 0.5)
    store.analyses.cancel(unwanted.id)
    eventually(lambda: not store.analyses.get(unwanted.id).is_active)
    done = store.analyses.get(kept.id)
    assert (done.status, done.attempts) == ("done", 2)
    assert store.artifacts.get(done.artifact_id).round == run.round
    assert store.analyses.get(unwanted.id).status == "cancelled"
    assert [event.kind for event in store.events.list(run.id)] == ["worker-died"]
    assert (store.queue.get(endless).status, store.queue.get(endless).epoch) == ("running", 1)
