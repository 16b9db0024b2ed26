"""Processes that are stopped (kill -STOP) where they block others, mostly inside a write transaction.

With real processes. The stopped process is killed and its work resumed; the results equal an undisturbed run.
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
from tests.worker.stopping import Stopping, fork_server
from tests.worker.test_processes import ENDLESS, TWO, is_alive

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
LONGER = {"training__rounds": 20}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One write may take six seconds."""
    monkeypatch.setattr(watchdog, "MAX_WRITE_S", 6.0)


def deaths(store: Store, run: RunRecord) -> list[str]:
    return [event.message for event in store.events.list(run.id) if event.kind == DIED]


@pytest.mark.slow
def test_after_a_worker_stops_inside_a_transaction_both_runs_equal_undisturbed_ones(
    store, undisturbed_run, stopping: Stopping, soon
):
    both = queue(store, **LONGER, **TWO)
    stopping.ask("committing", 9)  # after a checkpoint, and before the other run can have ended
    with Dispatcher(store, LocalExecutor(slots=2), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
    (pid,) = stopping.stopped
    assert not is_alive(pid)
    stopped, other = sorted((store.queue.get(run_id) for run_id in both), key=lambda run: -run.epoch)
    (why,) = deaths(store, stopped)
    assert "did not finish a write to the database within 6 s and was killed" in why
    assert (stopped.epoch, other.epoch, deaths(store, other)) == (2, 1, [])
    for run in (stopped, other):
        assert run.status == "done"
        assert rows(store, run.id) == undisturbed_run(**LONGER).rows
        assert run.summary == undisturbed_run(**LONGER).run.summary


@pytest.mark.slow
def test_an_analysis_stopped_inside_a_transaction_restarts_and_its_run_continues(
    store, undisturbed_run, stopping: Stopping, soon
):
    finished = compute(store)
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (running,) = eventually(lambda: stopping.stopped)
        stopping.ask("reported")
        asked = store.analyses.request(finished.id, "features", {"which": "last"})
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
        os.kill(running, signal.SIGCONT)
        dispatcher.run(threading.Event(), until_idle=True)
    assert not is_alive(pid)
    done, run = store.analyses.get(asked.id), store.queue.get(run_id)
    assert (done.status, done.attempts, run.status, run.epoch) == ("done", 2, "done", 1)
    assert rows(store, run_id) == undisturbed_run().rows
    (why,) = deaths(store, finished)
    assert "did not finish a write" in why
    assert store.artifacts.read(store.artifacts.get(done.artifact_id))


@pytest.mark.slow
def test_workers_that_wait_for_another_process_are_not_killed(store, undisturbed_run, stopping: Stopping, soon):
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
        with store._database.write():
            os.kill(pid, signal.SIGCONT)
            time.sleep(2.5 * watchdog.MAX_WRITE_S)
        dispatcher.run(threading.Event(), until_idle=True)
    run = store.queue.get(run_id)
    assert (run.status, run.epoch, deaths(store, run)) == ("done", 1, [])
    assert rows(store, run_id) == undisturbed_run().rows


@pytest.mark.slow
def test_a_stopped_fork_server_is_replaced_when_a_worker_is_needed(store, undisturbed_run, stopping: Stopping, soon):
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
        stopped = fork_server()
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        dispatcher.run(threading.Event(), until_idle=True)
    assert not is_alive(stopped)
    assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("done", 2)
    assert rows(store, run_id) == undisturbed_run().rows


def test_the_screen_reports_a_restarting_worker_that_blocks_writes(store, stopping: Stopping):
    (run_id,) = queue(store, **ENDLESS)
    stopping.ask("written", 3)
    with Dispatcher(store, LocalExecutor(slots=1), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
        eventually(store.dispatcher_notice)
        assert "A worker is not responding; it will be restarted in" in store.dispatcher_notice()
        writer = store.writer()
        assert writer is not None and (writer.pid, writer.is_worker, writer.is_stopped) == (pid, True, True)
        assert "the engine restarts it" in writer.advice
        os.kill(pid, signal.SIGCONT)
        eventually(lambda: not store.dispatcher_notice())
        assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("running", 1)
