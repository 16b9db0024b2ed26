"""kill -9 of workers and the dispatcher at random moments: results equal those of undisturbed runs."""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from random import Random

import pytest

from benchmarks.kills import deaths, worker_pid
from engine.worker.work_queue import MAX_DEATHS
from storage import RunRecord, Store
from tests.worker.engines import PATIENCE_S, eventually, start_engine
from tests.worker.samples import queue, rows

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
KILLED = ("worker", "dispatcher", "worker", "worker")
RUNS = {
    "checkpoint_s": 0.1,
    "training__rounds": 160,
    "algorithms": [{"name": "ditto"}, {"name": "cgpfl", "K": 2, "training": {"rounds": 80}}],
}


class Engine:
    """A dispatcher and two workers, which can be restarted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.process: subprocess.Popen = start_engine(store, slots=2)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.kill()
        self.process = start_engine(self.store, slots=2)


@pytest.fixture
def engine(store: Store) -> Iterator[Engine]:
    engine = Engine(store)
    yield engine
    engine.kill()


def victims(store: Store, dead: Collection[int]) -> list[int]:
    """Workers that may be killed without their run reaching the limit of attempts. They always have work."""
    if not any(run.is_active for run in store.queue.runs()):
        queue(store, **RUNS)
    running = [r for r in store.queue.runs(statuses=["running"]) if deaths(store, r.id) < MAX_DEATHS - 1]
    return [pid for run in running if (pid := worker_pid(run)) and pid not in dead]


def only_registered_files(store: Store, runs: Sequence[RunRecord]) -> bool:
    """Whether a sweep, as at the next start, leaves the runs' files and no others.

    Not yet while a worker deletes the checkpoints of the run that it has just finished, or outlives its dispatcher.
    """
    store.artifacts.sweep()
    folder = store.artifacts.folder
    files = {path.relative_to(folder).as_posix() for path in folder.glob("**/*") if path.is_file()}
    return files == {artifact.path for run in runs for artifact in store.artifacts.list(run.id)}


def end_of_all(store: Store) -> list[RunRecord]:
    eventually(lambda: not any(run.is_active for run in store.queue.runs()))
    return store.queue.runs(newest_first=False)


@pytest.mark.slow
def test_runs_with_killed_workers_and_dispatchers_equal_undisturbed_ones(store: Store, engine: Engine):
    random, dead = Random(0), set()
    for killed in KILLED:
        victim = random.choice(eventually(lambda: victims(store, dead)))
        time.sleep(random.uniform(0.0, 0.2))
        if killed == "worker":
            os.kill(victim, signal.SIGKILL)
            dead.add(victim)
        else:
            dead.update(victims(store, dead))  # they end with it
            engine.start_again()
    disturbed = end_of_all(store)
    eventually(lambda: only_registered_files(store, disturbed))
    assert any(run.epoch > 1 for run in disturbed)

    twins = {run.label: run for run in store.queue.rerun([run.id for run in disturbed[:2]])}
    end_of_all(store)
    for run in disturbed:
        assert run.status == "done"
        assert rows(store, run.id) == rows(store, twins[run.label].id)
        assert run.summary == store.queue.get(twins[run.label].id).summary
