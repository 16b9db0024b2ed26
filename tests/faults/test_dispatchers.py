"""Two dispatchers of one database, and one that the system stops for a while. With real processes."""

import os
import signal
import time

import pytest

from engine.worker import service
from storage import Store
from tests.worker.engines import eventually
from tests.worker.samples import compute, queue, rows
from tests.worker.test_processes import LONG, background, has_checkpoint, pytestmark, worker_pid

__all__ = ["background", "pytestmark"]


@pytest.mark.slow
def test_of_two_dispatchers_one_computes_even_if_it_is_stopped_for_a_while(store: Store, background):
    (run_id,) = queue(store, **LONG)
    both = [background(slots=2), background(slots=2)]  # one thread per run
    eventually(lambda: has_checkpoint(store, run_id))
    (engine,) = eventually(store.engines.list)
    stopped = (engine.pid, worker_pid(store.queue.get(run_id)))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    stood_at = store.queue.get(run_id).round
    time.sleep(3 * service.RETRY_S)  # the other one has tried to get the lock
    assert store.queue.get(run_id).round == stood_at
    assert store.try_dispatcher_lock() is None
    for pid in reversed(stopped):
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: store.queue.get(run_id).is_finished)
    assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("done", 1)
    assert [process.poll() for process in both] == [None, None]
    for process in both:
        process.kill()
        process.wait()
    assert rows(store, run_id) == rows(store, compute(store, **LONG).id)
