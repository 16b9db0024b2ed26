"""A database that is locked beyond the timeout: writes are retried, and no run fails."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

import pytest
import sqlalchemy as sa

from app.data import queries
from engine.worker import Dispatcher
from engine.worker import recorder as recording
from engine.worker.process import work_on
from storage import Store
from storage.sqlite import driver
from tests.app.pages import open_page, words
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import claim, claim_analysis, compute, queue, rows


@pytest.fixture
def short_timeout(store: Store) -> Iterator[Store]:
    """A store with a short timeout on the same database."""
    short_timeout = Store(store.url, timeout_s=0.01)
    yield short_timeout
    short_timeout.close()


@contextmanager
def locked(store: Store, *ways: str) -> Iterator[None]:
    """Another program holds the write lock."""
    with closing(driver().connect(sa.make_url(store.url).database, isolation_level=None)) as other:
        for statement in (*ways, "BEGIN IMMEDIATE"):
            other.execute(statement)
        yield


@pytest.fixture
def pauses(short_timeout: Store, store: Store, monkeypatch: pytest.MonkeyPatch, while_waiting) -> list[float]:
    """Every write finds a lock, except the heartbeat and the retry after a pause. Returns the pauses."""
    write, free = short_timeout._database.write, []

    @contextmanager
    def write_or_wait() -> Iterator[sa.Connection]:
        way = free.pop() if free else locked(store)
        with way, write() as connection:
            yield connection

    monkeypatch.setattr(short_timeout._database, "write", write_or_wait)
    return while_waiting(lambda: free.extend((nullcontext(), nullcontext())))


@pytest.mark.parametrize("checkpoint_s", [1e-6, 1000], ids=["checkpoints", "no checkpoint"])
@pytest.mark.slow
def test_constant_locks_do_not_change_results(store, short_timeout, pauses, monkeypatch, checkpoint_s):
    undisturbed = compute(store)
    queue(store, checkpoint_s=checkpoint_s)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    ticket = claim(store)
    work_on(short_timeout, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", undisturbed.summary)
    assert rows(store, run.id) == rows(store, undisturbed.id)
    assert len(pauses) >= 3
    assert store.artifacts.sweep() == 0


def test_an_analysis_that_meets_a_lock_at_its_end_is_done(store, short_timeout, pauses):
    run = compute(store)
    request = store.analyses.request(run.id, "confusion", {"which": "last"})
    ticket = claim_analysis(store)
    work_on(short_timeout, ticket)
    assert len(pauses) == 1
    done = store.analyses.get(request.id)
    assert (done.status, done.error) == ("done", None)
    assert store.artifacts.read(store.artifacts.get(done.artifact_id))


def test_a_dispatcher_continues_after_the_lock(store, short_timeout):
    (run_id,) = queue(store)
    executor, stop = FakeExecutor(), threading.Event()
    with Dispatcher(short_timeout, executor, short_timeout.try_dispatcher_lock()) as dispatcher:
        with locked(store):
            timer = threading.Timer(0.1, stop.set)
            timer.start()
            dispatcher.run(stop)
            timer.join()
        assert executor.tickets == []
        dispatcher.step()
        assert executor.run_ids == [run_id]


def test_a_page_reads_during_a_write_and_names_who_blocks_reading(store, short_timeout, monkeypatch):
    queue(store)
    store.close()
    monkeypatch.setattr(queries, "_open", lambda url: short_timeout)
    with locked(store):
        assert queries.problem() is None
        assert len(queries.runs()) == 1
    short_timeout.close()
    queries._prepare.clear()
    with locked(store, "PRAGMA locking_mode = EXCLUSIVE"):
        assert "locked by another process" in words(open_page("live"))
    assert "locked by another process" not in words(open_page("live"))


def test_a_page_checks_the_database_again_after_a_moment(store, monkeypatch):
    now, checks = 1000.0, []
    monkeypatch.setattr("app.data.queries.time.monotonic", lambda: now)
    monkeypatch.setattr(store, "ensure_schema", lambda: checks.append(now))
    monkeypatch.setattr(queries, "_open", lambda url: store)
    queries._prepare.clear()
    for passed in (0.0, 0.5 * queries.CHECK_S, queries.CHECK_S, 1.5 * queries.CHECK_S):
        now = queries.CHECK_S * 1000 + passed
        assert queries.problem() is None
    assert checks == [queries.CHECK_S * 1000, queries.CHECK_S * 1001]
    queries._prepare.clear()
