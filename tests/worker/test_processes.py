"""Real processes: workers are killed, and the results equal those of undisturbed runs."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from engine.worker import Dispatcher, LocalExecutor
from engine.worker import dispatcher as dispatcher_module
from storage import RunRecord, Store
from tests.worker.engines import PATIENCE_S, eventually, state_of
from tests.worker.samples import compute, queue, rows
from tests.worker.stopping import Stopping

ENDLESS = {"training__rounds": 100_000, "training__participation": 1.0, "checkpoint_s": 0.1}
TWO = {"algorithms": [{"name": "ditto"}, {"name": "ditto", "label": "again"}]}
pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


def is_alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z")


def worker_pid(run: RunRecord) -> int:
    return int((run.worker or "").rpartition(":")[2])


def has_checkpoint(store: Store, run_id: int) -> bool:
    run = store.queue.get(run_id)
    assert not run.is_finished, "the run was over before anything could happen to it"
    return bool(run.status == "running" and run.worker and store.artifacts.latest(run_id, "checkpoint"))


@pytest.mark.slow
def test_a_killed_worker_affects_no_other_and_its_run_equals_an_undisturbed_one(
    store, undisturbed_run, stopping: Stopping
):
    both = queue(store, **TWO)
    stopping.ask("trained", 3)
    with Dispatcher(store, LocalExecutor(slots=2), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
        os.kill(pid, signal.SIGKILL)
        dispatcher.run(threading.Event(), until_idle=True)
    killed, other = sorted((store.queue.get(run_id) for run_id in both), key=lambda run: -run.epoch)
    (event,) = store.events.list(killed.id)
    assert event.kind == "worker-died"
    assert "killed by signal 9: most likely out of memory" in event.message
    assert (killed.epoch, other.epoch, store.events.list(other.id)) == (2, 1, [])
    for run in (killed, other):
        assert run.status == "done"
        assert rows(store, run.id) == undisturbed_run().rows
        assert run.summary == undisturbed_run().run.summary


@pytest.mark.slow
def test_a_hanging_worker_is_killed_and_its_run_equals_an_undisturbed_one(
    store, undisturbed_run, stopping: Stopping, monkeypatch
):
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    executor = LocalExecutor(slots=1)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        eventually(lambda: stopping.stopped)
        with monkeypatch.context() as patch:
            patch.setattr(executor._watchdog, "hung_s", 0.5)
            eventually(lambda: dispatcher.step(0.02) or store.queue.get(run_id).epoch == 2)
        dispatcher.run(threading.Event(), until_idle=True)
    assert "no heartbeat" in store.events.list(run_id)[0].message
    assert store.queue.get(run_id).status == "done"
    assert rows(store, run_id) == undisturbed_run().rows


@pytest.mark.slow
def test_a_stopped_worker_is_killed_and_its_slot_is_used_again(store, stopping: Stopping):
    (stuck,) = queue(store)
    (next_one,) = queue(store)
    stopping.ask("trained", 3)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        eventually(lambda: stopping.stopped)
        store.queue.request([stuck], "pause")
        dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.get(stuck).status == "paused"
    assert store.queue.get(next_one).status == "done"


@pytest.mark.slow
def test_a_run_whose_dispatcher_was_closed_continues_with_the_next_one(store, undisturbed_run, stopping: Stopping):
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
    assert not is_alive(pid) and store.queue.get(run_id).status == "queued"
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
    assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("done", 2)
    assert rows(store, run_id) == undisturbed_run().rows


def test_a_running_run_yields_to_pages_and_obeys_a_request_without_being_killed(store, monkeypatch):
    monkeypatch.setenv("FEDSCAPE_NICE", str(os.getpriority(os.PRIO_PROCESS, 0) + 1))
    monkeypatch.setattr(dispatcher_module, "STOP_GRACE_S", PATIENCE_S)  # not killed before that
    rare = {"evaluation__every": ENDLESS["training__rounds"]}  # during an evaluation the previous checkpoint is used
    (run_id,) = queue(store, **ENDLESS, **rare)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step() or has_checkpoint(store, run_id))
        worker = worker_pid(store.queue.get(run_id))
        assert os.getpriority(os.PRIO_PROCESS, worker) == os.getpriority(os.PRIO_PROCESS, 0) + 1
        assert os.getsid(worker) == os.getsid(0)  # niceness counts only within a session
        store.queue.request([run_id], "pause")
        dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.get(run_id).status == "paused"
    assert store.artifacts.latest(run_id, "checkpoint").round == store.queue.get(run_id).round
    assert store.events.list(run_id) == []


CONSTANT = """
from engine.core.registry import METRICS


@METRICS.register("constant", title="Constant", paper="of a test")
class Constant:
    def __call__(self, values, weights):
        return {value}
"""


@pytest.mark.slow
def test_runs_that_start_after_a_plugin_was_edited_use_its_new_code(store, stopping: Stopping):
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        for value in (0.25, 0.75):
            (stopping.folder / "constant.py").write_text(CONSTANT.format(value=value))
            (run_id,) = queue(store)
            dispatcher.run(threading.Event(), until_idle=True)
            assert store.queue.get(run_id).summary["personalized"]["constant"] == value


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
def slow(stopping: Stopping) -> Callable[[], list[int]]:
    """A plugin with an analysis ``slow`` that waits for a file ``go``; returns the workers that have started it."""
    (stopping.folder / "slow.py").write_text(SLOW)
    return lambda: [int(path.name[4:]) for path in stopping.folder.glob("pid-*")]


@pytest.mark.slow
def test_an_analysis_survives_a_killed_worker_and_can_be_cancelled(store, slow, stopping: Stopping):
    run = compute(store)
    (endless,) = queue(store, **ENDLESS)
    kept = store.analyses.request(run.id, "slow", {"which": "last"})
    go = stopping.folder / "go"
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(slow)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: dispatcher.step() or len(slow()) == 2)
        go.touch()
        eventually(lambda: dispatcher.step() or not store.analyses.get(kept.id).is_active)
        go.unlink()
        unwanted = store.analyses.request(run.id, "slow", {"which": "best"})
        eventually(lambda: dispatcher.step() or store.analyses.get(unwanted.id).progress == 0.5)
        store.analyses.cancel(unwanted.id)
        eventually(lambda: dispatcher.step() or not store.analyses.get(unwanted.id).is_active)
        assert (store.queue.get(endless).status, store.queue.get(endless).epoch) == ("running", 1)
    done = store.analyses.get(kept.id)
    assert (done.status, done.attempts) == ("done", 2)
    assert store.artifacts.get(done.artifact_id).round == run.round
    assert store.analyses.get(unwanted.id).status == "cancelled"
    assert [event.kind for event in store.events.list(run.id)] == ["worker-died"]
