"""Several processes at once, and processes that are killed."""

import time
from collections.abc import Callable

import pytest

from storage import Store
from tests.storage.processes import kill, start, started
from tests.storage.samples import a_round, new_run

pytestmark = pytest.mark.slow

NOTICED_S = 30.0  # by when a server has given back the lock of a process that was killed

MIGRATE = """
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
from storage.metrics import insert_rounds, pack_rounds
run = store.queue.runs()[0]
with store._database.write() as connection:
    insert_rounds(connection, run.id, pack_rounds([a_round(1)]))
    connection.exec_driver_sql("UPDATE runs SET round = 1")
    print("inside", flush=True)
    sys.stdin.read()
"""
MIGRATE_HALF = """
from storage import schema
upgrade = schema._upgrade
def and_wait(connection, revision):
    upgrade(connection, revision)
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


def test_processes_that_write_at_once_lose_nothing(store: Store) -> None:
    created = store.experiments.create("x", {}, [new_run(seed, rounds=2) for seed in range(6)])
    assert start(WORK, store, times=2).communicate() == ("", "")
    runs = store.queue.runs(experiment_ids=[created.id])
    assert {(run.status, run.epoch, run.round) for run in runs} == {("done", 1, 1)}
    assert all([r.round for r in store.metrics.rounds(run.id)] == [0, 1] for run in runs)


def test_processes_that_start_at_once_on_no_database_all_get_one(blank_store: Store) -> None:
    assert start(MIGRATE, blank_store, times=2).communicate() == ("", "")
    assert len(blank_store.events.list()) == 2


def test_a_process_killed_inside_a_transaction_leaves_the_state_before_it(sqlite_store: Store) -> None:
    sqlite_store.experiments.create("x", {}, [new_run()])
    run = sqlite_store.queue.claim()
    sqlite_store.metrics.append(run.id, run.epoch, [a_round(0)])
    kill(started(INSIDE, sqlite_store))
    assert [r.round for r in sqlite_store.metrics.rounds(run.id)] == [0]
    assert sqlite_store.queue.get(run.id).round == 0
    sqlite_store.metrics.append(run.id, run.epoch, [a_round(1)])
    with sqlite_store._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


def test_a_process_killed_inside_a_migration_has_changed_nothing(blank_store: Store) -> None:
    kill(started(MIGRATE_HALF, blank_store))
    assert blank_store.needs_migration()
    blank_store.ensure_schema(wait_s=NOTICED_S)
    assert blank_store.queue.runs() == []


def test_the_dispatchers_lock_ends_with_its_process(store: Store) -> None:
    process = started(HOLD, store)
    assert store.dispatcher_is_running()
    assert store.try_dispatcher_lock() is None
    kill(process)
    eventually(lambda: not store.dispatcher_is_running())
    with store.try_dispatcher_lock() as lock:
        assert lock is not None


def eventually(holds: Callable[[], bool]) -> None:
    """A server needs an instant to see that a connection has ended."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
