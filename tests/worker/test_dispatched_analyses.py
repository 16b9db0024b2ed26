"""Analyses, which are queued beside the runs and do not wait for them."""

import pytest

from engine.worker import AnalysisTicket, Dispatcher
from engine.worker.dispatcher import STOP_GRACE_S
from engine.worker.work_queue import MAX_DEATHS
from storage import Store
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import claim, queue


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
    first, second, _ = queue(store, seeds=[1, 2, 3])
    asked = store.analyses.request(finished, "features", {})
    dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("analysis", asked.id), ("run", first), ("run", second)]


def test_an_analysis_does_not_wait_for_the_runs_that_have_all_slots(store, finished, dispatcher, executor):
    queue(store, seeds=[1, 2, 3])
    dispatcher.step()
    assert executor.free == 0
    first, second = (store.analyses.request(finished, kind, {}).id for kind in ("features", "landscape"))
    dispatcher.step()
    assert analyses(executor) == [first]
    assert store.analyses.get(second).status == "queued"


def test_more_analyses_take_the_slots_that_runs_leave_free(store, finished, dispatcher, executor):
    asked = [store.analyses.request(finished, kind, {}).id for kind in ("a", "b", "c", "d")]
    dispatcher.step()
    assert analyses(executor) == asked[:3]


def test_the_screen_sees_the_slots_of_runs_only(store, finished, dispatcher, executor, clock):
    queue(store, seeds=[1, 2])
    store.analyses.request(finished, "features", {})
    dispatcher.step()
    clock.now = 5.0
    dispatcher.step()
    (engine,) = store.engines.list()
    assert (engine.slots, engine.running) == (2, 2)


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
    for clock.now in (1.0, 1.5 + STOP_GRACE_S):
        dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("run", run_id)]
    assert store.analyses.get(asked.id).status == "cancelled"
    assert store.queue.get(run_id).status == "running"
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
    assert "given up after 3 attempts" in failed.error and "request it again" in failed.error
    assert len(store.events.list(finished)) == MAX_DEATHS
    assert dispatcher.is_idle


def test_an_analysis_that_outlived_many_dispatchers_is_not_given_up_for_that(store, finished):
    asked = store.analyses.request(finished, "features", {})
    for _ in range(2 * MAX_DEATHS):
        with Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock()) as dispatcher:
            dispatcher.step()
    with Dispatcher(store, executor := FakeExecutor(), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        executor.end("the worker process was killed by signal 9")
        dispatcher.step()
        assert store.analyses.get(asked.id).status == "running"


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
    for clock.now in (1.0, 1.5 + STOP_GRACE_S):
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
