"""PostgreSQL only: a server that restarts or crashes, and a lock that ends with its connection."""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from storage import (
    DatabaseLocked,
    DatabaseUnavailable,
    DispatcherLockLost,
    RunRecord,
    StorageError,
    Store,
    Transient,
    postgres,
)
from storage.turns import next_run
from tests.storage.samples import a_round, create, new_run
from tests.support.postgres import Server

pytestmark = pytest.mark.postgres
END_OTHERS = sa.text(
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
    "AND datname = current_database()"
)


@pytest.fixture
def running(postgres_store: Store) -> RunRecord:
    """A claimed run with round 0."""
    postgres_store.experiments.create("x", {}, [new_run()])
    run = postgres_store.queue.claim()
    assert run is not None
    postgres_store.metrics.append(run.id, run.epoch, [a_round(0)])
    return run


@pytest.fixture
def other(postgres_store: Store) -> Iterator[Store]:
    """A store with separate connections to the same database."""
    store = Store(postgres_store.url)
    yield store
    store.close()


def rounds(store: Store, run: RunRecord) -> list[int]:
    return [r.round for r in store.metrics.rounds(run.id)]


def end_other_connections(store: Store) -> None:
    with store._database.write() as connection:
        connection.execute(END_OTHERS)


def test_a_claim_skips_the_run_that_another_process_is_claiming(postgres_store: Store, other: Store) -> None:
    first, second = create(postgres_store, 2)
    with postgres_store._database.write() as connection:
        assert connection.scalar(next_run(False, False, False)) == first
        assert other.queue.claim().id == second
        assert other.queue.claim() is None


def test_a_claim_that_began_before_another_was_committed_takes_the_next_run(
    postgres_store: Store, other: Store
) -> None:
    """It sees the queue as it was, so a run is checked again once it is locked."""
    first, second = create(postgres_store, 2)
    query = next_run(False, False, False).where(sa.text("pg_advisory_xact_lock_shared(1) IS NOT NULL"))
    is_waiting = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")

    def claimed() -> int:
        with other._database.write() as connection:
            return connection.scalar(query)

    with ThreadPoolExecutor(1) as pool:
        with postgres_store._database.write() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(1)"))
            late = pool.submit(claimed)
            while not connection.scalar(is_waiting):
                time.sleep(0.01)
            assert postgres_store.queue.claim().id == first
        assert late.result() == second


def test_a_start_deletes_no_files_of_another_database_in_the_same_folder(
    postgres_store: Store, running: RunRecord, blank_postgres: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine = postgres_store.artifacts
    mine.sweep()  # as the dispatcher of this database does
    model = mine.register(running.id, running.epoch, mine.write_file(running.id, "model-last", 0, b"weights"))
    other = Store(blank_postgres)
    assert other.artifacts.folder == mine.folder
    other.ensure_schema()
    other.artifacts.sweep()
    theirs = other.artifacts.write_file(1, "checkpoint", 0, b"not registered yet")
    assert other.artifacts.sweep() == mine.sweep() == 0
    assert mine.read(model) == b"weights"
    mark = f"database-{other._database.identity()}.txt"
    assert f"delete {mark} there if that database no longer uses the folder" in caplog.text
    (mine.folder / mark).unlink()
    assert mine.sweep() == 1
    assert list(mine.files.names()) == [model.path] and theirs.path != model.path
    other.close()


def test_the_first_start_deletes_no_files_that_were_there_before(postgres_store: Store, running: RunRecord) -> None:
    postgres_store.artifacts.write_file(running.id, "checkpoint", 0, b"of a database that left no mark")
    assert postgres_store.artifacts.sweep() == 0
    assert postgres_store.artifacts.sweep() == 1


@pytest.mark.slow
def test_too_many_ids_are_refused_as_such(postgres_store: Store) -> None:
    with pytest.raises(StorageError, match="cannot take so many runs or experiments at once") as error:
        postgres_store.queue.runs(run_ids=range(70_000))
    assert not isinstance(error.value, Transient)


def test_a_timed_out_writer_names_the_lock_holder(postgres_store: Store, running: RunRecord) -> None:
    short_timeout = Store(postgres_store.url, timeout_s=0.05)
    with postgres_store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET round = 0")
        with pytest.raises(DatabaseLocked, match=r"locked by another session for 0\.05 s"):
            short_timeout.queue.heartbeat(running.id, running.epoch)
    short_timeout.queue.heartbeat(running.id, running.epoch)
    short_timeout.close()


def test_writes_that_block_each_other_are_reported_as_such(postgres_store: Store, running: RunRecord) -> None:
    *_, second = create(postgres_store, 1)
    lock = "UPDATE runs SET round = round WHERE id = {}"
    both = threading.Barrier(2)

    def write(*run_ids: int) -> str:
        try:
            with postgres_store._database.write() as connection:
                connection.exec_driver_sql(lock.format(run_ids[0]))
                both.wait()
                connection.exec_driver_sql(lock.format(run_ids[1]))
        except DatabaseLocked as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(write, (running.id, second), (second, running.id)))
    (message,) = filter(None, found)
    assert message.endswith("this write and one of another session blocked each other; try again")


def test_an_idle_transaction_is_ended_and_others_write(
    postgres_store: Store, running: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "IDLE_TRANSACTION_MS", 1000)
    stopped = Store(postgres_store.url)

    def write() -> None:
        with stopped._database.write() as connection:
            connection.exec_driver_sql("UPDATE runs SET round = 7")
            postgres_store.queue.heartbeat(running.id, running.epoch)  # waits until the row is free
            connection.exec_driver_sql("UPDATE runs SET round = 8")

    with pytest.raises(DatabaseUnavailable):
        write()
    assert postgres_store.queue.get(running.id).round == 0
    stopped.queue.heartbeat(running.id, running.epoch)
    stopped.close()


def test_an_unreachable_server_is_reported_without_its_password() -> None:
    store = Store("postgresql+psycopg://me:secret@/x?host=/no/such/folder")
    for ask in (store.check_schema, store.try_dispatcher_lock, store.queue.counts):
        with pytest.raises(DatabaseUnavailable, match="Check that the server runs") as error:
            ask()
        assert "secret" not in str(error.value) and "\n" not in str(error.value)
    store.close()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
@pytest.mark.slow
def test_committed_data_survives_a_server_stop(
    postgres_server: Server, postgres_store: Store, running: RunRecord, how: int
) -> None:
    with postgres_server.stopped(how), pytest.raises(DatabaseUnavailable):
        postgres_store.metrics.append(running.id, running.epoch, [a_round(1)])
    assert rounds(postgres_store, running) == [0]
    postgres_store.metrics.append(running.id, running.epoch, [a_round(1)])
    assert rounds(postgres_store, running) == [0, 1]


def test_a_server_stop_rolls_back_an_open_transaction(
    postgres_server: Server, postgres_store: Store, running: RunRecord
) -> None:
    def write() -> None:
        with postgres_store._database.write() as connection:
            connection.exec_driver_sql("UPDATE runs SET round = 7")
            with postgres_server.stopped(signal.SIGQUIT):
                connection.exec_driver_sql("UPDATE runs SET round = 8")

    with pytest.raises(DatabaseUnavailable):
        write()
    assert postgres_store.queue.get(running.id).round == 0


def test_a_closed_idle_connection_is_replaced_transparently(
    postgres_store: Store, other: Store, running: RunRecord
) -> None:
    end_other_connections(other)
    assert rounds(postgres_store, running) == [0]


def test_a_lock_lost_with_its_connection_is_reacquired(postgres_store: Store, other: Store) -> None:
    with postgres_store.try_dispatcher_lock() as lock:
        lock.renew()
        end_other_connections(other)
        assert not other.dispatcher_is_running()
        lock.renew()
        assert other.dispatcher_is_running()
    assert not other.dispatcher_is_running()


def test_losing_the_lock_to_another_process_raises_and_does_not_release_it(postgres_store: Store, other: Store) -> None:
    lock = postgres_store.try_dispatcher_lock()
    end_other_connections(other)
    with other.try_dispatcher_lock():
        for _ in range(2):
            with pytest.raises(DispatcherLockLost, match="another process has become the dispatcher"):
                lock.renew()
        lock.release()
        assert other.dispatcher_is_running()


def test_the_lock_holder_is_unknown_while_the_server_is_down(postgres_server: Server, postgres_store: Store) -> None:
    with postgres_store.try_dispatcher_lock() as lock:
        with postgres_server.stopped(), pytest.raises(DatabaseUnavailable):
            lock.renew()
        lock.renew()
        assert postgres_store.dispatcher_is_running()
