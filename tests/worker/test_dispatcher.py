"""The dispatcher's decisions, with an executor that computes nothing and a clock that the test moves."""

import threading
from collections.abc import Iterator

import pytest

from engine.worker import AnalysisTicket, Dispatcher, Ended, Ticket, Work
from engine.worker.claims import MAX_DEATHS
from engine.worker.dispatcher import OBEY_S
from storage import DatabaseLocked, Store
from tests.worker.samples import claim, queue


class FakeExecutor:
    """Two slots; a ticket ends when the test says so."""

    slots, device = 2, "cpu"

    def __init__(self) -> None:
        self.tickets: list[Work] = []
        self.ended: list[Ended] = []
        self.is_closed = False

    @property
    def free(self) -> int:
        return self.slots - len(self.tickets)

    def submit(self, ticket: Work) -> None:
        self.tickets.append(ticket)

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        ended, self.ended = self.ended, []
        return ended

    def kill(self, ticket: Work) -> None:
        self.tickets = [t for t in self.tickets if t != ticket]

    def close(self) -> None:
        self.is_closed = True

    def end(self, problem: str | None = None) -> None:
        self.ended.append(Ended(self.tickets.pop(0), problem))

    @property
    def run_ids(self) -> list[int]:
        return [ticket.run_id for ticket in self.tickets]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def dispatcher(store: Store, executor: FakeExecutor, clock: Clock) -> Iterator[Dispatcher]:
    with Dispatcher(store, executor, store.try_dispatcher_lock(), clock=clock) as dispatcher:
        yield dispatcher


def status(store: Store, run_id: int) -> str:
    return store.queue.get(run_id).status


def test_runs_are_claimed_in_order_while_slots_are_free(store, dispatcher, executor):
    first, second, third = queue(store, seeds=[0, 1, 2])
    dispatcher.step()
    assert executor.run_ids == [first, second]
    store.queue.finish(first, executor.tickets[0].epoch, "done")
    executor.end()
    dispatcher.step()
    assert executor.run_ids == [second, third]


def test_a_ticket_says_where_everything_lies(store, dispatcher, executor):
    queue(store)
    dispatcher.step()
    (ticket,) = executor.tickets
    assert (ticket.epoch, ticket.database_url, ticket.artifacts) == (1, store.url, store.artifacts.folder)


def test_a_dispatcher_of_some_runs_leaves_the_others(store, executor):
    one, other = queue(store, seeds=[0, 1])
    with Dispatcher(store, executor, store.try_dispatcher_lock(), run_ids=[other]) as dispatcher:
        dispatcher.step()
        assert executor.run_ids == [other]
        assert status(store, one) == "queued"


def test_there_is_one_dispatcher_of_a_database(store, dispatcher):
    late = FakeExecutor()
    assert Dispatcher.acquire(Store(store.url), late) is None
    assert late.is_closed


def test_a_fresh_database_gets_its_tables(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'new' / 'fedscape.db'}")
    with Dispatcher.acquire(store, FakeExecutor()) as dispatcher:
        dispatcher.step()
        assert store.queue.counts() == {}
    store.close()


def test_what_a_dead_dispatcher_left_running_is_taken_up_again(store, executor):
    queue(store)
    left = claim(store)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert [(t.run_id, t.epoch) for t in executor.tickets] == [(left.run_id, left.epoch + 1)]


def test_files_without_a_row_are_swept_at_the_start(store, executor):
    queue(store)
    orphan = store.artifacts.folder / store.artifacts.write_file(claim(store).run_id, "checkpoint", 3, b"x").path
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert not orphan.exists()


def test_a_run_whose_worker_died_is_queued_again(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert [(t.run_id, t.epoch) for t in executor.tickets] == [(run_id, 2)]
    assert [event.message for event in store.events.list(run_id)] == ["the worker process was killed by signal 9"]


def test_a_run_that_kills_its_workers_is_given_up(store, dispatcher, executor):
    (run_id,) = queue(store)
    for _ in range(MAX_DEATHS):
        dispatcher.step()
        executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert status(store, run_id) == "failed"
    assert "killed by signal 9" in store.queue.get(run_id).error
    assert dispatcher.is_idle


def test_a_worker_that_died_after_finishing_its_run_changes_nothing(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.finish(run_id, executor.tickets[0].epoch, "done")
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert status(store, run_id) == "done"


@pytest.mark.parametrize(("control", "becomes"), [("cancel", "cancelled"), ("pause", "paused")])
def test_a_worker_that_does_not_obey_in_time_is_killed(store, dispatcher, executor, clock, control, becomes):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.request([run_id], control)
    clock.now = 1.0
    dispatcher.step()
    clock.now = 1.0 + OBEY_S - 0.1
    dispatcher.step()
    assert executor.run_ids == [run_id]
    clock.now = 1.0 + OBEY_S + 0.5
    dispatcher.step()
    assert executor.run_ids == []
    assert status(store, run_id) == becomes


def test_a_pause_taken_back_in_time_kills_nobody(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.request([run_id], "pause")
    clock.now = 1.0
    dispatcher.step()
    store.queue.resume([run_id])
    for clock.now in (2.0, 10.0):
        dispatcher.step()
    assert executor.run_ids == [run_id]


def test_a_worker_that_has_just_finished_is_not_killed(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.finish(run_id, executor.tickets[0].epoch, "done")
    clock.now = 1.0
    dispatcher.step()
    assert executor.run_ids == [run_id]


def test_closing_queues_running_runs_again_and_frees_the_lock(store, executor):
    (run_id,) = queue(store)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert status(store, run_id) == "running"
    assert executor.is_closed
    assert status(store, run_id) == "queued"
    assert not store.dispatcher_is_running()
    assert store.engines.list() == []


def test_the_screen_sees_the_engine(store, dispatcher, executor, clock):
    queue(store)
    dispatcher.step()
    clock.now = 5.0
    dispatcher.step()
    (engine,) = store.engines.list()
    assert (engine.device, engine.slots, engine.running) == ("cpu", 2, 1)


def test_a_locked_database_costs_a_turn_and_no_run(store, dispatcher, executor, monkeypatch):
    (run_id,) = queue(store)
    dispatcher.step()
    executor.end("the worker process was killed by signal 9")

    def locked(*_: object) -> None:
        raise DatabaseLocked("locked")

    with monkeypatch.context() as patch:
        patch.setattr(store.queue, "requeue", locked)
        with pytest.raises(DatabaseLocked):
            dispatcher.step()
    dispatcher.step()
    assert [(t.run_id, t.epoch) for t in executor.tickets] == [(run_id, 2)]


def test_a_database_locked_at_the_start_is_put_in_order_at_a_later_turn(store, executor, monkeypatch):
    queue(store)
    left = claim(store)
    requeue_running, tries = store.queue.requeue_running, []

    def locked_once() -> list[int]:
        tries.append(1)
        if len(tries) == 1:
            raise DatabaseLocked("locked")
        return requeue_running()

    monkeypatch.setattr(store.queue, "requeue_running", locked_once)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        with pytest.raises(DatabaseLocked):
            dispatcher.step()
        dispatcher.step()
        dispatcher.step()
        assert [(t.run_id, t.epoch) for t in executor.tickets] == [(left.run_id, left.epoch + 1)]
    assert len(tries) == 2


def test_a_run_deleted_before_its_workers_death_is_told_ends_nothing(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.finish(run_id, executor.tickets[0].epoch, "cancelled")
    store.queue.delete([run_id])
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert dispatcher.is_idle


def test_running_until_idle_ends_when_nothing_is_queued(store, dispatcher, executor, monkeypatch):
    queue(store, seeds=[0, 1, 2])

    def finish_at_once(ticket: Ticket) -> None:
        store.queue.finish(ticket.run_id, ticket.epoch, "done")
        executor.ended.append(Ended(ticket))

    monkeypatch.setattr(executor, "submit", finish_at_once)
    dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.counts() == {"done": 3}


# Analyses, which are queued beside the runs.


@pytest.fixture
def finished(store: Store) -> int:
    """A run that analyses can be asked of; nobody reads its models here."""
    (run_id,) = queue(store)
    ticket = claim(store)
    store.queue.finish(run_id, ticket.epoch, "done")
    return run_id


def analyses(executor: FakeExecutor) -> list[int]:
    return [ticket.analysis_id for ticket in executor.tickets if isinstance(ticket, AnalysisTicket)]


def test_an_analysis_is_begun_before_runs_that_were_queued_earlier(store, finished, dispatcher, executor):
    first, _ = queue(store, seeds=[1, 2])
    asked = store.analyses.request(finished, "features", {})
    dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("analysis", asked.id), ("run", first)]


def test_a_dispatcher_of_some_runs_leaves_analyses_alone(store, finished, executor):
    store.analyses.request(finished, "features", {})
    with Dispatcher(store, executor, store.try_dispatcher_lock(), run_ids=queue(store)) as dispatcher:
        dispatcher.step()
        assert analyses(executor) == []
    assert store.analyses.active()[0].status == "queued"


def test_a_run_and_an_analysis_of_one_number_are_two(store, finished, dispatcher, executor, clock):
    (run_id,) = queue(store)
    asked = [store.analyses.request(finished, kind, {}) for kind in ("a", "b")][-1]
    assert asked.id == run_id
    store.analyses.cancel(1)
    dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("analysis", run_id), ("run", run_id)]
    store.analyses.cancel(asked.id)
    for clock.now in (1.0, 1.5 + OBEY_S):
        dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("run", run_id)]
    assert store.analyses.get(asked.id).status == "cancelled"
    assert status(store, run_id) == "running"
    assert "analysis 2 is now cancelled" in store.events.list(finished)[-1].message


def test_an_analysis_that_kills_its_workers_is_given_up(store, finished, dispatcher, executor):
    asked = store.analyses.request(finished, "features", {})
    for attempt in range(1, MAX_DEATHS + 1):
        dispatcher.step()
        assert [(t.analysis_id, t.attempts) for t in executor.tickets] == [(asked.id, attempt)]
        executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    failed = store.analyses.get(asked.id)
    assert failed.status == "failed"
    assert "given up after 3 attempts" in failed.error and "ask for it again" in failed.error
    assert len(store.events.list(finished)) == MAX_DEATHS
    assert dispatcher.is_idle


def test_an_analysis_that_a_dead_dispatcher_left_is_taken_up_again(store, finished, executor):
    asked = store.analyses.request(finished, "features", {})
    store.analyses.claim()
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert [(t.analysis_id, t.epoch) for t in executor.tickets] == [(asked.id, 2)]
    assert store.analyses.get(asked.id).status == "queued"


def test_a_run_deleted_during_its_analysis_frees_the_slot(store, finished, dispatcher, executor, clock):
    store.analyses.request(finished, "features", {})
    dispatcher.step()
    store.queue.delete([finished])
    for clock.now in (1.0, 1.5 + OBEY_S):
        dispatcher.step()
    assert executor.tickets == []
    assert dispatcher.is_idle


def test_a_worker_that_died_after_its_run_was_deleted_ends_nothing(store, finished, dispatcher, executor):
    store.analyses.request(finished, "features", {})
    dispatcher.step()
    store.queue.delete([finished])
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert dispatcher.is_idle
