"""The dispatcher's decisions, with a fake executor and a fake clock."""

import threading

import pytest

from engine.worker import Dispatcher, Ended, Ticket
from engine.worker import dispatcher as dispatcher_module
from engine.worker.dispatcher import HEARTBEAT_S, STOP_GRACE_S
from engine.worker.executor import Machine
from engine.worker.recorder import CHECKPOINT
from engine.worker.work_queue import MAX_DEATHS
from storage import DatabaseLocked, DatabaseUnavailable, DispatcherLock, DispatcherLockLost, Store
from tests.worker.fakes import Clock, FakeExecutor
from tests.worker.samples import claim, queue


def status(store: Store, run_id: int) -> str:
    return store.queue.get(run_id).status


def test_runs_are_claimed_in_order_into_free_slots(store, dispatcher, executor):
    first, second, third = queue(store, seeds=[0, 1, 2])
    dispatcher.step()
    assert executor.run_ids == [first, second]
    store.queue.finish(first, executor.tickets[0].epoch, "done")
    executor.end()
    dispatcher.step()
    assert executor.run_ids == [second, third]


def test_a_ticket_has_all_paths(store, dispatcher, executor):
    queue(store)
    dispatcher.step()
    (ticket,) = executor.tickets
    assert (ticket.epoch, ticket.database_url, ticket.artifacts) == (1, store.url, store.artifacts.folder)


def test_a_dispatcher_limited_to_some_runs_ignores_others(store, executor):
    one, other = queue(store, seeds=[0, 1])
    with Dispatcher(store, executor, store.try_dispatcher_lock(), run_ids=[other]) as dispatcher:
        dispatcher.step()
        assert executor.run_ids == [other]
        assert status(store, one) == "queued"


def test_a_database_has_one_dispatcher(store, dispatcher):
    late = FakeExecutor()
    assert Dispatcher.acquire(Store(store.url), late) is None
    assert late.is_closed


def test_a_fresh_database_gets_its_tables(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'new' / 'fedscape.db'}")
    with Dispatcher.acquire(store, FakeExecutor()) as dispatcher:
        dispatcher.step()
        assert store.queue.counts() == {}
    store.close()


def test_runs_of_a_dead_dispatcher_are_resumed(store, executor):
    queue(store)
    left = claim(store)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert [(t.run_id, t.epoch) for t in executor.tickets] == [(left.run_id, left.epoch + 1)]


def test_unregistered_files_are_swept_at_the_start(store, executor):
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
    (event,) = store.events.list(run_id)
    assert event.message == "the worker process was killed by signal 9; there was no checkpoint yet"


def test_a_run_that_kills_its_workers_fails(store, dispatcher, executor):
    (run_id,) = queue(store)
    for _ in range(MAX_DEATHS):
        dispatcher.step()
        executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert status(store, run_id) == "failed"
    assert "killed by signal 9" in store.queue.get(run_id).error
    assert dispatcher.is_idle


def test_a_run_with_a_long_log_that_kills_its_workers_fails(store, dispatcher, executor):
    (run_id,) = queue(store)
    for _ in range(MAX_DEATHS):
        dispatcher.step()
        executor.end("the worker process was killed by signal 9")
        for number in range(200):
            store.events.add(run_id, "info", "note", f"line {number}")
    dispatcher.step()
    assert status(store, run_id) == "failed"


def test_a_run_that_kills_its_workers_does_not_block_others(store, dispatcher, executor):
    poison, other, last = queue(store, seeds=[0, 1, 2])
    for _ in range(MAX_DEATHS):
        dispatcher.step()
        executor.tickets.sort(key=lambda ticket: ticket.run_id)
        assert executor.run_ids == [poison, other]
        executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert executor.run_ids == [other, last]
    assert store.queue.counts() == {"failed": 1, "running": 2}
    assert [ticket.epoch for ticket in executor.tickets] == [1, 1]


def test_progress_between_worker_deaths_resets_the_count(store, dispatcher, executor):
    (run_id,) = queue(store)
    for round in range(2 * MAX_DEATHS):
        dispatcher.step()
        (ticket,) = executor.tickets
        file = store.artifacts.write_file(run_id, CHECKPOINT, round, b"state")
        store.artifacts.register(run_id, ticket.epoch, file)
        executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert status(store, run_id) == "running"


def test_a_worker_death_after_its_run_finished_changes_nothing(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.finish(run_id, executor.tickets[0].epoch, "done")
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert status(store, run_id) == "done"


@pytest.mark.parametrize(("control", "becomes"), [("cancel", "cancelled"), ("pause", "paused")])
def test_a_worker_that_ignores_a_request_is_killed(store, dispatcher, executor, clock, control, becomes):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.request([run_id], control)
    clock.now = 1.0
    dispatcher.step()
    clock.now = 1.0 + STOP_GRACE_S - 0.1
    dispatcher.step()
    assert executor.run_ids == [run_id]
    clock.now = 1.0 + STOP_GRACE_S + 0.5
    dispatcher.step()
    assert executor.run_ids == []
    assert status(store, run_id) == becomes


def step_while_locked(store, dispatcher, monkeypatch):
    """A turn in which no run can be requeued."""

    def locked(*_: object) -> None:
        raise DatabaseLocked("locked")

    with monkeypatch.context() as patch:
        patch.setattr(store.queue, "requeue", locked)
        with pytest.raises(DatabaseLocked):
            dispatcher.step()


def test_a_run_whose_worker_was_killed_while_the_database_was_locked_is_released_later(
    store, dispatcher, executor, clock, monkeypatch
):
    run_id = ignored_pause(store, dispatcher, clock)
    step_while_locked(store, dispatcher, monkeypatch)
    assert executor.tickets == []
    store.queue.resume([run_id])
    dispatcher.step()
    assert [(ticket.run_id, ticket.epoch) for ticket in executor.tickets] == [(run_id, 2)]


def test_a_killed_worker_is_forgotten_even_if_the_reply_to_its_release_is_lost(
    store, dispatcher, executor, clock, monkeypatch
):
    run_id, requeue = ignored_pause(store, dispatcher, clock), store.queue.requeue

    def unacknowledged(*claim: int) -> None:
        requeue(*claim)
        raise DatabaseUnavailable("the server does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(store.queue, "requeue", unacknowledged)
        with pytest.raises(DatabaseUnavailable):
            dispatcher.step()
    dispatcher.step()
    assert dispatcher.is_idle and status(store, run_id) == "paused"


def ignored_pause(store: Store, dispatcher: Dispatcher, clock: Clock) -> int:
    """A run whose worker is killed in the next turn."""
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.request([run_id], "pause")
    clock.now = 1.0
    dispatcher.step()
    clock.now = 1.0 + STOP_GRACE_S
    return run_id


def test_a_pause_withdrawn_in_time_kills_no_worker(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.request([run_id], "pause")
    clock.now = 1.0
    dispatcher.step()
    store.queue.resume([run_id])
    for clock.now in (2.0, 10.0):
        dispatcher.step()
    assert executor.run_ids == [run_id]


@pytest.mark.parametrize("ending", ["done", "cancelled", "paused"])
def test_a_worker_whose_run_has_ended_may_clean_up_for_long(store, dispatcher, executor, clock, ending):
    (run_id,) = queue(store)
    dispatcher.step()
    if ending == "paused":
        store.queue.request([run_id], "pause")
    store.queue.finish(run_id, executor.tickets[0].epoch, ending)
    for clock.now in (1.0, 2.0 + STOP_GRACE_S, 60.0):
        dispatcher.step()
    assert executor.run_ids == [run_id]
    executor.end()
    dispatcher.step()
    assert dispatcher.is_idle and status(store, run_id) == ending


def test_a_run_resumed_while_it_pauses_may_be_claimed_again_before_its_first_worker_answers(
    store, dispatcher, executor
):
    queue(store)
    dispatcher.step()
    first = executor.tickets[0]
    assert store.queue.finish(first.run_id, first.epoch, "paused") == "queued"
    dispatcher.step()
    executor.end()
    dispatcher.step()
    assert [ticket.epoch for ticket in executor.tickets] == [2] and not dispatcher.is_idle


def test_a_worker_whose_run_was_claimed_by_another_dispatcher_is_killed(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.requeue_running()
    ended = claim(store)
    store.queue.finish(run_id, ended.epoch, "done")
    for clock.now in (1.0, 2.0 + STOP_GRACE_S):
        dispatcher.step()
    assert executor.tickets == [] and status(store, run_id) == "done"


def test_closing_requeues_running_runs_and_releases_the_lock(store, executor):
    (run_id,) = queue(store)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert status(store, run_id) == "running"
    assert executor.is_closed
    assert status(store, run_id) == "queued"
    assert not store.dispatcher_is_running()
    assert store.engines.list() == []


def test_the_engine_sends_heartbeats(store, dispatcher, executor, clock):
    queue(store)
    dispatcher.step()
    clock.now = 5.0
    dispatcher.step()
    (engine,) = store.engines.list()
    assert (engine.device, engine.slots, engine.running) == ("cpu", 2, 1)


def test_a_locked_database_delays_a_turn_and_loses_no_run(store, dispatcher, executor, monkeypatch):
    (run_id,) = queue(store)
    dispatcher.step()
    executor.end("the worker process was killed by signal 9")
    step_while_locked(store, dispatcher, monkeypatch)
    dispatcher.step()
    assert [(t.run_id, t.epoch) for t in executor.tickets] == [(run_id, 2)]


def test_cleanup_skipped_by_a_lock_at_the_start_is_done_later(store, executor, monkeypatch):
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


@pytest.mark.parametrize("kind", ["run", "analysis"])
def test_a_claim_made_as_the_server_went_down_is_requeued(store, dispatcher, executor, monkeypatch, kind):
    (run_id,) = queue(store)
    if kind == "analysis":
        ticket = claim(store)
        store.queue.finish(run_id, ticket.epoch, "done")
        store.analyses.request(run_id, "features", {})
    claims = dispatcher._claims[kind]

    def claim_without_answer(together: bool) -> None:
        assert len(type(claims).claim(claims, together)) == 1
        raise DatabaseUnavailable("the server went away after the commit")

    with monkeypatch.context() as patch:
        patch.setattr(claims, "claim", claim_without_answer)
        with pytest.raises(DatabaseUnavailable):
            dispatcher.step()
    assert executor.tickets == []
    dispatcher.step()
    assert [(ticket.key, ticket.epoch) for ticket in executor.tickets] == [((kind, 1), 2)]


def test_a_dispatcher_that_lost_its_lock_stops_and_leaves_its_runs(store, executor):
    def lost() -> bool:
        raise DispatcherLockLost("another process is the dispatcher")

    queue(store)
    claimed = claim(store)
    lock = DispatcherLock(lambda: None, lost)
    with pytest.raises(DispatcherLockLost), Dispatcher(store, executor, lock) as dispatcher:
        dispatcher.run(threading.Event())
    assert executor.is_closed
    assert (store.queue.get(claimed.run_id).status, store.queue.get(claimed.run_id).epoch) == ("running", claimed.epoch)


def test_an_unreachable_database_is_reported_once(store, dispatcher, monkeypatch, caplog):
    stop, turns = threading.Event(), []

    def locked() -> None:
        turns.append(1)
        if len(turns) == 3:
            stop.set()
        raise DatabaseLocked("the database is locked")

    monkeypatch.setattr(dispatcher_module, "RETRY_S", 0.0)
    monkeypatch.setattr(dispatcher, "step", locked)
    dispatcher.run(stop)
    assert [record.message for record in caplog.records] == ["the database is locked"]


def test_a_worker_death_reported_after_its_run_was_deleted_changes_nothing(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.finish(run_id, executor.tickets[0].epoch, "cancelled")
    store.queue.delete([run_id])
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert dispatcher.is_idle


def test_running_until_idle_ends_with_an_empty_queue(store, dispatcher, executor, monkeypatch):
    queue(store, seeds=[0, 1, 2])

    def finish_at_once(ticket: Ticket) -> None:
        store.queue.finish(ticket.run_id, ticket.epoch, "done")
        executor.ended.append(Ended(ticket))

    monkeypatch.setattr(executor, "submit", finish_at_once)
    dispatcher.run(threading.Event(), until_idle=True)
    assert store.queue.counts() == {"done": 3}


def test_a_refused_run_waits_again_however_often_and_its_log_says_so_once(store, dispatcher, executor):
    (run_id,) = queue(store)
    for _ in range(MAX_DEATHS + 1):
        dispatcher.step()
        executor.end("lab2: it has torch 1.0", is_refused=True)
    dispatcher.step()
    assert executor.run_ids == [run_id]
    assert [e.message for e in store.events.list(run_id)] == ["returned to the queue: lab2: it has torch 1.0"]


def test_the_executor_learns_how_many_runs_wait(store, dispatcher, executor, clock):
    queue(store, seeds=[0, 1, 2])
    dispatcher.step()
    clock.now += HEARTBEAT_S
    dispatcher.step()
    assert executor.queued == 1


def test_an_outage_is_stored_as_long_as_it_lasts(store, dispatcher, executor, clock):
    executor.problem = "no cluster"
    for _ in range(2):
        dispatcher.step()
        (outage,) = store.engines.list()
        assert (outage.problem, outage.is_outage) == ("no cluster", True)
        clock.now += HEARTBEAT_S
    executor.problem = ""
    executor.machines = lambda: [Machine("node", "lab1", "cpu", 1, 0, 1, 0)]
    dispatcher.step()
    assert [machine.host for machine in store.engines.list()] == ["lab1"]


def test_an_outage_is_shown_while_another_dispatcher_may_try(store, executor):
    executor.problem = "no cluster"
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        executor.has_given_up = True
        dispatcher.run(threading.Event())
    assert [machine.problem for machine in store.engines.list()] == ["no cluster"]


def test_a_dispatcher_that_stops_removes_its_outage(store, executor):
    executor.problem = "no cluster"
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
    assert store.engines.list() == []
