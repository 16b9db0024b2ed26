"""Two dispatchers of one database, which the system stops for a while or kills. With real processes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from engine.worker import service
from storage import Store
from tests.worker.engines import PATIENCE_S, eventually, start_engine
from tests.worker.samples import compute, queue, rows
from tests.worker.stopping import Stopping, plugin, stopping
from tests.worker.test_processes import ENDLESS, is_alive

__all__ = ["plugin", "stopping"]


@pytest.fixture
def background(store: Store) -> Iterator[Callable[[], subprocess.Popen]]:
    """Starts dispatchers of the test's database as separate programs."""
    started: list[subprocess.Popen] = []

    def start() -> subprocess.Popen:
        started.append(start_engine(store))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.slow
def test_another_dispatcher_takes_over_when_one_is_killed_but_not_while_it_is_stopped(
    store: Store, background: Callable[[], subprocess.Popen], stopping: Stopping
) -> None:
    undisturbed = compute(store)
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    both = {process.pid: process for process in (background(), background())}
    (worker,) = eventually(lambda: stopping.stopped)
    (engine,) = store.engines.list()
    os.kill(engine.pid, signal.SIGSTOP)
    time.sleep(3 * service.RETRY_S)  # the other one has tried to get the lock
    assert store.try_dispatcher_lock() is None
    stopping.ask("written")
    for pid in (worker, engine.pid):
        os.kill(pid, signal.SIGCONT)
    assert eventually(lambda: stopping.stopped) == [worker]
    assert store.queue.get(run_id).epoch == 1

    first = both.pop(engine.pid)
    first.kill()
    first.wait()
    eventually(lambda: store.queue.get(run_id).is_finished)
    assert not is_alive(worker)
    assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("done", 2)
    assert rows(store, run_id) == rows(store, undisturbed.id)

    (second,) = both.values()
    assert [machine.pid for machine in store.engines.list() if machine.pid != first.pid] == [second.pid]
    stopping.ask("trained")
    (endless,) = queue(store, **ENDLESS)
    (worker,) = eventually(lambda: stopping.stopped)
    second.kill()
    os.kill(worker, signal.SIGCONT)
    eventually(lambda: not is_alive(worker))
    assert store.queue.get(endless).status == "running"
