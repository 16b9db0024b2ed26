"""Workers on PostgreSQL: if a worker or the server dies, the results equal those of an undisturbed run."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from engine.simulation.simulate import Simulation
from engine.worker import Dispatcher, LocalExecutor, recorder, retry, watchdog
from engine.worker.process import work_on
from storage import DispatcherLockLost, Store
from tests.support.postgres import Server
from tests.worker import test_kill_points as kill_points
from tests.worker import test_stopped as stopped_worker
from tests.worker.engines import PATIENCE_S, eventually
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import Undisturbed, claim, compute, queue, rows
from tests.worker.stopping import Stopping

pytestmark = pytest.mark.postgres
END_THE_LOCK = sa.text("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'")


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.mark.parametrize("point", ["in the transaction", "after the commit", "models registered, status not set"])
@pytest.mark.slow
def test_a_killed_worker_loses_nothing(
    store: Store, undisturbed_run: Callable[..., Undisturbed], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    kill_points.test_a_killed_and_resumed_run_equals_an_undisturbed_one(
        store, undisturbed_run, monkeypatch, point, 1e-6, dense_bytes=0
    )


def before(calls: dict[int, Callable[[], None]], original: Callable) -> Callable:
    """Runs ``calls[n]`` before the n-th call."""
    count = itertools.count(1)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.get(next(count), lambda: None)()
        return original(*args, **kwargs)

    return call


@pytest.mark.parametrize(("until", "checkpoint_s"), [("a later round", 1e-6), ("after the last round", 1000)])
@pytest.mark.slow
def test_a_run_continues_while_the_server_is_down(
    postgres_server: Server, store: Store, monkeypatch: pytest.MonkeyPatch, until: str, checkpoint_s: float
) -> None:
    undisturbed = compute(store)
    queue(store, checkpoint_s=checkpoint_s)
    ticket = claim(store)
    happens = {3: lambda: postgres_server.stop(signal.SIGQUIT)}
    if until == "a later round":
        happens[5] = postgres_server.start
    else:  # the run waits until its last writes succeed
        monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=lambda seconds: postgres_server.start()))
    monkeypatch.setattr(recorder, "WRITE_S", 0.0)
    monkeypatch.setattr(Simulation, "_record_round", before(happens, Simulation._record_round))
    work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.epoch, run.summary) == ("done", 1, undisturbed.summary)
    assert rows(store, run.id) == rows(store, undisturbed.id)
    assert any("were held in memory" in event.message for event in store.events.list(run.id))


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.slow
def test_dispatcher_and_workers_survive_a_server_restart(
    postgres_server: Server, store: Store, stopping: Stopping
) -> None:
    undisturbed = compute(store)
    (run_id,) = queue(store)
    stopping.ask("trained", 3)
    with closing(Dispatcher(store, LocalExecutor(slots=1, threads=1), store.try_dispatcher_lock())) as dispatcher:
        dispatcher.step()
        (pid,) = eventually(lambda: stopping.stopped)
        turns = threading.Thread(target=dispatcher.run, args=(threading.Event(), True))
        with postgres_server.stopped():
            os.kill(pid, signal.SIGCONT)
            turns.start()
            turns.join(0.7)
        turns.join()
        assert store.dispatcher_is_running()
    run = store.queue.get(run_id)
    assert (run.status, run.epoch, run.summary) == ("done", 1, undisturbed.summary)
    assert rows(store, run_id) == rows(store, undisturbed.id)
    assert "worker-died" not in {event.kind for event in store.events.list(run_id)}


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.slow
def test_a_worker_stopped_inside_a_transaction_is_killed_and_its_locks_released(
    store: Store, undisturbed_run: Callable[..., Undisturbed], stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "MAX_WRITE_S", 6.0)
    stopped_worker.test_after_a_worker_stops_inside_a_transaction_both_runs_equal_undisturbed_ones(
        store, undisturbed_run, stopping, None
    )


@pytest.fixture
def other(store: Store) -> Iterator[Store]:
    """A store with separate connections."""
    other = Store(store.url)
    yield other
    other.close()


def test_another_dispatcher_resumes_the_runs_after_a_lost_lock(store: Store, other: Store) -> None:
    (run_id,) = queue(store)
    with closing(Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock())) as first:
        first.step()
        with other._database.write() as connection:
            connection.execute(END_THE_LOCK)
        with Dispatcher(other, FakeExecutor(), other.try_dispatcher_lock()) as second:
            second.step()
            with pytest.raises(DispatcherLockLost):
                first.run(threading.Event())
            first.close()
            assert (store.queue.get(run_id).status, store.queue.get(run_id).epoch) == ("running", 2)
