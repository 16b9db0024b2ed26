"""Another process holds the write lock: it is named, with what to do, and nothing is lost."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from storage import DatabaseLocked, RunRecord, Store, holders, metrics
from storage.holders import LockHolder
from tests.storage.processes import kill, started
from tests.storage.samples import a_round, new_run

IN_A_TRANSACTION = """
with store._database.write() as connection:
    connection.exec_driver_sql("UPDATE runs SET round = 7")
    print("inside", flush=True)
    sys.stdin.read()
"""
LOCKED = """
lock = store.try_dispatcher_lock()
print("locked", flush=True)
sys.stdin.read()
"""
WORKER = "python -c from multiprocessing.forkserver import main; main(18, 19)"


@pytest.fixture
def running(sqlite_store: Store) -> RunRecord:
    """A claimed run with round 0."""
    sqlite_store.experiments.create("x", {}, [new_run()])
    run = sqlite_store.queue.claim()
    assert run is not None
    sqlite_store.metrics.append(run.id, run.epoch, [a_round(0)])
    return run


@pytest.fixture
def lock_holder(sqlite_store: Store, running: RunRecord) -> Iterator[subprocess.Popen[str]]:
    """A process inside a write transaction."""
    process = started(IN_A_TRANSACTION, sqlite_store)
    yield process
    if process.poll() is None:
        kill(process)


@pytest.fixture
def short_timeout(sqlite_store: Store) -> Iterator[Store]:
    short_timeout = Store(sqlite_store.url, timeout_s=0.05)
    yield short_timeout
    short_timeout.close()


@pytest.mark.slow
def test_the_lock_holder_is_named(short_timeout: Store, running: RunRecord, lock_holder) -> None:
    with pytest.raises(DatabaseLocked) as error:
        short_timeout.queue.heartbeat(running.id, running.epoch)
    assert f"was locked by process {lock_holder.pid} (" in str(error.value)
    assert "for 0.05 s; close it, or wait until it has finished, and try again" in str(error.value)


@pytest.mark.slow
def test_killing_a_stopped_process_loses_only_its_transaction(
    short_timeout: Store, running: RunRecord, lock_holder
) -> None:
    os.kill(lock_holder.pid, signal.SIGSTOP)
    os.waitpid(lock_holder.pid, os.WUNTRACED)
    pid = lock_holder.pid
    with pytest.raises(DatabaseLocked, match=f"it is stopped: kill -CONT {pid} resumes it, kill -9 {pid} ends it"):
        short_timeout.queue.heartbeat(running.id, running.epoch)
    assert [r.round for r in short_timeout.metrics.rounds(running.id)] == [0]  # reading still works
    kill(lock_holder)
    short_timeout.queue.heartbeat(running.id, running.epoch)
    assert short_timeout.queue.get(running.id).round == 0
    assert short_timeout.writer() is None


def test_no_lock_holder_is_named_without_a_lock(sqlite_store: Store, running: RunRecord) -> None:
    assert sqlite_store.writer() is None
    with sqlite_store._database.write():
        assert sqlite_store.writer() is None  # except this process


@pytest.mark.slow
def test_without_proc_locks_the_message_names_no_process(
    short_timeout: Store, running: RunRecord, lock_holder, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(holders, "LOCKS", tmp_path / "none")
    with pytest.raises(DatabaseLocked, match=r"was locked by another process for 0\.05 s; close other programs"):
        short_timeout.queue.heartbeat(running.id, running.epoch)


@pytest.mark.slow
def test_a_stopped_dispatcher_is_named(sqlite_store: Store) -> None:
    process = started(LOCKED, sqlite_store)
    assert sqlite_store.dispatcher_notice() == ""
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    notice = sqlite_store.dispatcher_notice()
    assert notice.startswith(f"The engine is not responding (process {process.pid}): it is stopped: kill -CONT")
    kill(process)
    assert not sqlite_store.dispatcher_is_running()


@pytest.mark.parametrize(
    ("is_stopped", "is_abandoned", "advice"),
    [
        (True, False, "the engine restarts it"),
        (False, False, "the engine restarts it"),
        (True, True, "kill -9 7"),
        (False, True, "wait until it has finished"),
    ],
)
def test_a_stopped_worker_is_restarted_unless_its_dispatcher_is_gone(is_stopped, is_abandoned, advice) -> None:
    worker = LockHolder(7, WORKER, is_stopped, is_abandoned)
    assert str(worker) == "process 7 (a worker of the engine)"
    assert advice in worker.advice


def test_rounds_are_packed_before_a_transaction_begins(running: RunRecord, sqlite_store: Store, monkeypatch) -> None:
    pack, shapes = metrics.pack, []

    def pack_outside_transaction(array):
        writer = Store(sqlite_store.url, timeout_s=0.0)
        writer.queue.heartbeat(running.id, running.epoch)  # fails during another transaction
        writer.close()
        shapes.append(array.shape)
        return pack(array)

    monkeypatch.setattr(metrics, "pack", pack_outside_transaction)
    sqlite_store.metrics.append(running.id, running.epoch, [a_round(1)])
    sqlite_store.queue.finish(running.id, running.epoch, "paused", rounds=[a_round(2)])
    assert len(shapes) == 4
    assert [r.round for r in sqlite_store.metrics.rounds(running.id)] == [0, 1, 2]
