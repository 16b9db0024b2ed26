"""Another process is in the way of every writer: who it is, what to do, and that nothing is lost."""

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
    """One run, claimed, with round 0."""
    sqlite_store.experiments.create("x", {}, [new_run()])
    run = sqlite_store.queue.claim()
    assert run is not None
    sqlite_store.metrics.append(run.id, run.epoch, [a_round(0)])
    return run


@pytest.fixture
def in_the_way(sqlite_store: Store, running: RunRecord) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun to write."""
    process = started(IN_A_TRANSACTION, sqlite_store)
    yield process
    if process.poll() is None:
        kill(process)


@pytest.fixture
def impatient(sqlite_store: Store) -> Iterator[Store]:
    impatient = Store(sqlite_store.url, timeout_s=0.05)
    yield impatient
    impatient.close()


def test_who_has_begun_to_write_is_named(impatient: Store, running: RunRecord, in_the_way) -> None:
    with pytest.raises(DatabaseLocked) as told:
        impatient.queue.heartbeat(running.id, running.epoch)
    assert f"was locked by process {in_the_way.pid} (" in str(told.value)
    assert "for 0.05 s; close it, or wait until it has finished, and try again" in str(told.value)


def test_a_stopped_process_can_be_let_go_on_or_ended_and_only_its_transaction_is_lost(
    impatient: Store, running: RunRecord, in_the_way
) -> None:
    os.kill(in_the_way.pid, signal.SIGSTOP)
    os.waitpid(in_the_way.pid, os.WUNTRACED)
    pid = in_the_way.pid
    with pytest.raises(DatabaseLocked, match=f"it is stopped: kill -CONT {pid} resumes it, kill -9 {pid} ends it"):
        impatient.queue.heartbeat(running.id, running.epoch)
    assert [r.round for r in impatient.metrics.rounds(running.id)] == [0]  # reading goes on
    kill(in_the_way)
    impatient.queue.heartbeat(running.id, running.epoch)
    assert impatient.queue.get(running.id).round == 0
    assert impatient.writer() is None


def test_nobody_is_named_where_nobody_is_in_the_way(sqlite_store: Store, running: RunRecord) -> None:
    assert sqlite_store.writer() is None
    with sqlite_store._database.write():
        assert sqlite_store.writer() is None  # but ourselves


def test_where_the_system_does_not_show_locks_the_message_names_nobody(
    impatient: Store, running: RunRecord, in_the_way, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(holders, "LOCKS", tmp_path / "none")
    with pytest.raises(DatabaseLocked, match=r"was locked by another process for 0\.05 s; close other programs"):
        impatient.queue.heartbeat(running.id, running.epoch)


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
def test_a_worker_is_the_engines_to_restart_unless_its_dispatcher_is_gone(is_stopped, is_abandoned, advice) -> None:
    worker = LockHolder(7, WORKER, is_stopped, is_abandoned)
    assert str(worker) == "process 7 (a worker of the engine)"
    assert advice in worker.advice


def test_rounds_are_packed_before_a_transaction_begins(running: RunRecord, sqlite_store: Store, monkeypatch) -> None:
    pack, begun = metrics.pack, []

    def and_look(array):
        writer = Store(sqlite_store.url, timeout_s=0.0)
        writer.queue.heartbeat(running.id, running.epoch)  # refused while another transaction is under way
        writer.close()
        begun.append(array.shape)
        return pack(array)

    monkeypatch.setattr(metrics, "pack", and_look)
    sqlite_store.metrics.append(running.id, running.epoch, [a_round(1)])
    sqlite_store.queue.finish(running.id, running.epoch, "paused", rounds=[a_round(2)])
    assert len(begun) == 4
    assert [r.round for r in sqlite_store.metrics.rounds(running.id)] == [0, 1, 2]
