"""Processes that are stopped, as by kill -STOP, where they are in everyone's way: inside a write transaction, mostly.

With real processes. Whoever is stopped is killed and what it did is taken up again, with the rows of a run in peace.
"""

import os
import signal
import threading
import time

import pytest

from engine.worker import Dispatcher, LocalExecutor, watchdog
from engine.worker.work_queue import DIED
from storage import RunRecord, Store
from tests.worker.engines import PATIENCE_S, eventually
from tests.worker.samples import compute, queue, rows
from tests.worker.stopping import Stopping, fork_server, stopping
from tests.worker.test_processes import ENDLESS, LONG, background, has_checkpoint, is_alive, worker_pid

__all__ = ["background", "stopping"]
pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
SHORTER = LONG | {"training__rounds": 150, "checkpoint_s": 0.05}
TWO = {"algorithms": [{"name": "ditto"}, {"name": "ditto", "label": "again"}]}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One write may take four seconds."""
    monkeypatch.setattr(watchdog, "MAX_WRITE_S", 4.0)


def deaths(store: Store, run: RunRecord) -> list[str]:
    return [event.message for event in store.events.list(run.id) if event.kind == DIED]


@pytest.mark.parametrize(("point", "time"), [("written", 3), ("committing", 5)])
def test_a_worker_stopped_inside_a_transaction_is_killed_and_both_runs_end_as_if_in_peace(
    store, in_peace, stopping: Stopping, soon, point, time
):
    both = queue(store, **SHORTER, **TWO)
    stopping.ask(point, time)  # after a checkpoint, and before the other run can have ended
    with Dispatcher(store, LocalExecutor(slots=2), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
    (pid,) = stopping.stopped
    assert not is_alive(pid)
    stopped, other = sorted((store.queue.get(run_id) for run_id in both), key=lambda run: -run.epoch)
    (why,) = deaths(store, stopped)
    assert "did not finish a write to the database within 4 s and was killed" in why
    assert (stopped.epoch, other.epoch, deaths(store, other)) == (2, 1, [])
    for run in (stopped, other):
        assert run.status == "done"
        assert rows(store, run.id) == in_peace(**SHORTER).rows
        assert run.summary == in_peace(**SHORTER).run.summary


def test_an_analysis_stopped_inside_a_transaction_is_begun_anew_and_the_run_beside_it_goes_on(
    store, in_peace, stopping: Stopping, soon
):
    finished = compute(store)
    expected = store.analyses.request(finished.id, "features", {"which": "best"})
    (run_id,) = queue(store, **LONG)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or store.analyses.get(expected.id).status == "done")
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, run_id))
        stopping.ask("reported")
        asked = store.analyses.request(finished.id, "features", {"which": "last"})
        dispatcher.run(threading.Event(), until_idle=True)
    (pid,) = stopping.stopped
    assert not is_alive(pid)
    done, run = store.analyses.get(asked.id), store.queue.get(run_id)
    assert (done.status, done.attempts, run.status, run.epoch) == ("done", 2, "done", 1)
    assert rows(store, run_id) == in_peace(**LONG).rows
    (why,) = deaths(store, finished)
    assert "did not finish a write" in why
    assert store.artifacts.read(store.artifacts.get(done.artifact_id))


def test_workers_that_wait_for_somebody_elses_lock_are_left_alone(store, in_peace, stopping: Stopping, soon):
    (run_id,) = queue(store, **LONG)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, run_id))
        with store._database.write():
            time.sleep(2.5 * watchdog.MAX_WRITE_S)
        dispatcher.run(threading.Event(), until_idle=True)
    run = store.queue.get(run_id)
    assert (run.status, run.epoch, deaths(store, run)) == ("done", 1, [])
    assert rows(store, run_id) == in_peace(**LONG).rows


def test_a_worker_stopped_inside_a_transaction_does_not_outlive_the_dispatcher_for_long(
    store, in_peace, stopping: Stopping, background
):
    (run_id,) = queue(store, **SHORTER)
    stopping.ask("written", time=3)
    first = background()
    (pid,) = eventually(lambda: stopping.stopped)
    first.kill()
    first.wait()
    assert is_alive(pid)
    background()
    eventually(lambda: not is_alive(pid))
    eventually(lambda: store.queue.get(run_id).is_finished)
    assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("done", 2)
    assert rows(store, run_id) == in_peace(**SHORTER).rows


def test_a_stopped_fork_server_is_replaced_when_a_worker_is_needed(store, in_peace, stopping: Stopping, soon):
    (run_id,) = queue(store, **LONG)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, run_id))
        stopped = fork_server()
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        os.kill(worker_pid(store.queue.get(run_id)), signal.SIGKILL)
        dispatcher.run(threading.Event(), until_idle=True)
    assert not is_alive(stopped)
    assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("done", 2)
    assert rows(store, run_id) == in_peace(**LONG).rows


def test_the_screen_says_that_a_worker_is_restarted_and_why_nothing_can_be_stored(store, stopping: Stopping):
    (run_id,) = queue(store, **ENDLESS)
    executor = LocalExecutor(slots=1)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        eventually(lambda: dispatcher.step(0.02) or has_checkpoint(store, run_id))
        stopping.ask("written")
        (pid,) = eventually(lambda: stopping.stopped)
        eventually(store.dispatcher_notice)
        assert "A worker is not responding; it will be restarted in" in store.dispatcher_notice()
        writer = store.writer()
        assert writer is not None and (writer.pid, writer.is_worker, writer.is_stopped) == (pid, True, True)
        assert "the engine restarts it" in writer.advice
        os.kill(pid, signal.SIGCONT)
        eventually(lambda: not store.dispatcher_notice())
        assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("running", 1)
