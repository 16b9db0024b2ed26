"""A database locked for longer than anybody waits: asked again, and no run fails of it."""

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
def impatient(store: Store) -> Iterator[Store]:
    """The same database, for somebody who does not wait long."""
    impatient = Store(store.url, timeout_s=0.01)
    yield impatient
    impatient.close()


@contextmanager
def locked(store: Store, *ways: str) -> Iterator[None]:
    """Another program has begun to write."""
    with closing(driver().connect(sa.make_url(store.url).database, isolation_level=None)) as other:
        for statement in (*ways, "BEGIN IMMEDIATE"):
            other.execute(statement)
        yield


@pytest.fixture
def pauses(impatient: Store, store: Store, monkeypatch: pytest.MonkeyPatch, while_waiting) -> list[float]:
    """Every write finds a lock, but for the two after a pause: a sign of life, and what is asked again. The pauses."""
    write, free = impatient._database.write, []

    @contextmanager
    def write_or_wait() -> Iterator[sa.Connection]:
        way = free.pop() if free else locked(store)
        with way, write() as connection:
            yield connection

    monkeypatch.setattr(impatient._database, "write", write_or_wait)
    return while_waiting(lambda: free.extend((nullcontext(), nullcontext())))


@pytest.mark.parametrize("checkpoint_s", [1e-6, 1000], ids=["checkpoints", "no checkpoint"])
def test_a_run_that_finds_locks_all_the_time_equals_one_in_peace(store, impatient, pauses, monkeypatch, checkpoint_s):
    whole = compute(store)
    queue(store, checkpoint_s=checkpoint_s)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    ticket = claim(store)
    work_on(impatient, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", whole.summary)
    assert rows(store, run.id) == rows(store, whole.id)
    assert len(pauses) >= 3
    assert store.artifacts.sweep() == 0


def test_an_analysis_that_finds_a_lock_at_its_end_is_done(store, impatient, pauses):
    run = compute(store)
    asked = store.analyses.request(run.id, "confusion", {"which": "last"})
    ticket = claim_analysis(store)
    work_on(impatient, ticket)
    assert len(pauses) == 1
    done = store.analyses.get(asked.id)
    assert (done.status, done.error) == ("done", None)
    assert store.artifacts.read(store.artifacts.get(done.artifact_id))


def test_a_dispatcher_goes_on_after_the_lock(store, impatient):
    (run_id,) = queue(store)
    executor, stop = FakeExecutor(), threading.Event()
    with Dispatcher(impatient, executor, impatient.try_dispatcher_lock()) as dispatcher:
        with locked(store):
            timer = threading.Timer(0.1, stop.set)
            timer.start()
            dispatcher.run(stop)
            timer.join()
        assert executor.tickets == []
        dispatcher.step()
        assert executor.run_ids == [run_id]


def test_a_page_reads_while_somebody_writes_and_says_who_is_in_the_way_of_reading(store, impatient, monkeypatch):
    queue(store)
    store.close()
    monkeypatch.setattr(queries, "_open", lambda url: impatient)
    with locked(store):
        assert queries.problem() is None
        assert len(queries.runs()) == 1
    impatient.close()
    queries._prepare.clear()
    with locked(store, "PRAGMA locking_mode = EXCLUSIVE"):
        assert "locked by another process" in words(open_page("live"))
    assert "locked by another process" not in words(open_page("live"))
