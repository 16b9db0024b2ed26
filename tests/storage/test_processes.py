"""Several processes at once, and processes that are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage import Store
from tests.storage.samples import a_round, new_run

ROOT = Path(__file__).parents[2]
OPEN = "import sys; from storage import Store; from tests.storage.samples import *; store = Store(sys.argv[1])\n"
MIGRATE = """
import time
from storage import SchemaOutdated
while True:
    try:
        store.ensure_schema()
        break
    except SchemaOutdated:  # another process is at it
        time.sleep(0.01)
store.events.add(None, "info", "test", "ready")
"""
WORK = """
while (run := store.queue.claim()) is not None:
    for r in range(run.rounds):
        store.metrics.append(run.id, run.epoch, [a_round(r)])
    store.queue.finish(run.id, run.epoch, "done")
"""
INSIDE = """
from storage.metrics import insert_rounds
with store._database.write() as connection:
    insert_rounds(connection, 1, [a_round(1)])
    connection.exec_driver_sql("UPDATE runs SET round = 1")
    print("inside", flush=True)
    sys.stdin.read()
"""
MIGRATE_HALF = """
from storage import schema
upgrade = schema._upgrade
def and_wait(connection):
    upgrade(connection)
    print("inside", flush=True)
    sys.stdin.read()
schema._upgrade = and_wait
store.ensure_schema()
"""
HOLD = """
lock = store.try_dispatcher_lock()
print("locked" if lock else "refused", flush=True)
sys.stdin.read()
"""


def start(script: str, store: Store) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OPEN + script, store.url], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_processes_that_write_at_once_lose_nothing(sqlite_store: Store) -> None:
    made = sqlite_store.experiments.create("x", {}, [new_run(seed) for seed in range(12)])
    workers = [start(WORK, sqlite_store) for _ in range(2)]
    for worker in workers:
        _, errors = worker.communicate()
        assert worker.returncode == 0, errors
    runs = sqlite_store.queue.runs(experiment_ids=[made.id])
    assert {(run.status, run.epoch, run.round) for run in runs} == {("done", 1, 4)}
    assert all([r.round for r in sqlite_store.metrics.rounds(run.id)] == [0, 1, 2, 3, 4] for run in runs)


def test_processes_that_start_at_once_on_no_database_all_get_one(database_url: str) -> None:
    store = Store(database_url)
    answers = [process.communicate() for process in [start(MIGRATE, store) for _ in range(3)]]
    assert answers == [("", "")] * 3
    assert len(store.events.list()) == 3
    store.close()


@pytest.fixture
def one_round(sqlite_store: Store) -> Store:
    """Run 1 is running under epoch 1 and has round 0."""
    sqlite_store.experiments.create("x", {}, [new_run()])
    sqlite_store.queue.claim()
    sqlite_store.metrics.append(1, 1, [a_round(0)])
    return sqlite_store


def test_a_process_killed_inside_a_transaction_leaves_the_state_before_it(one_round: Store) -> None:
    process = start(INSIDE, one_round)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    kill(process)
    assert [r.round for r in one_round.metrics.rounds(1)] == [0]
    assert one_round.queue.get(1).round == 0
    one_round.metrics.append(1, 1, [a_round(1)])
    with one_round._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


def test_a_process_killed_inside_a_migration_has_changed_nothing(database_url: str) -> None:
    store = Store(database_url)
    process = start(MIGRATE_HALF, store)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    kill(process)
    assert store.needs_migration()
    store.ensure_schema()
    assert store.queue.runs() == []
    store.close()


def test_the_dispatchers_lock_ends_with_its_process(sqlite_store: Store) -> None:
    process = start(HOLD, sqlite_store)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    assert sqlite_store.dispatcher_is_running()
    assert sqlite_store.try_dispatcher_lock() is None
    kill(process)
    assert not sqlite_store.dispatcher_is_running()
    with sqlite_store.try_dispatcher_lock() as lock:
        assert lock is not None
