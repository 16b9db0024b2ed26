"""Analyses are queued separately and do not wait for runs."""

import pytest

from engine.worker import AnalysisTicket, Dispatcher
from engine.worker.dispatcher import STOP_GRACE_S
from engine.worker.work_queue import MAX_DEATHS
from storage import Store
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import claim, queue


@pytest.fixture
def finished(store: Store) -> int:
    """A run that analyses can be requested for; its models are not read."""
    (run_id,) = queue(store)
    ticket = claim(store)
    store.queue.finish(run_id, ticket.epoch, "done")
    return run_id


def analyses(executor: FakeExecutor) -> list[int]:
    return [ticket.analysis_id for ticket in executor.tickets if isinstance(ticket, AnalysisTicket)]


def test_an_analysis_starts_before_earlier_runs(store, finished, dispatcher, executor):
    first, second, _ = queue(store, seeds=[1, 2, 3])
    request = store.analyses.request(finished, "features", {})
    dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("analysis", request.id), ("run", first), ("run", second)]


def test_an_analysis_does_not_wait_for_a_free_slot(store, finished, dispatcher, executor):
    queue(store, seeds=[1, 2, 3])
    dispatcher.step()
    assert executor.free == 0
    first, second = (store.analyses.request(finished, kind, {}).id for kind in ("features", "landscape"))
    dispatcher.step()
    assert analyses(executor) == [first]
    assert store.analyses.get(second).status == "queued"


def test_further_analyses_use_free_slots(store, finished, dispatcher, executor):
    request = [store.analyses.request(finished, kind, {}).id for kind in ("a", "b", "c", "d")]
    dispatcher.step()
    assert analyses(executor) == request[:3]


def test_the_heartbeat_counts_slots_of_runs_only(store, finished, dispatcher, executor, clock):
    queue(store, seeds=[1, 2])
    store.analyses.request(finished, "features", {})
    dispatcher.step()
    clock.now = 5.0
    dispatcher.step()
    (engine,) = store.engines.list()
    assert (engine.slots, engine.running) == (2, 2)


def test_a_dispatcher_limited_to_some_runs_ignores_analyses(store, finished, executor):
    store.analyses.request(finished, "features", {})
    with Dispatcher(store, executor, store.try_dispatcher_lock(), run_ids=queue(store)) as dispatcher:
        dispatcher.step()
        assert analyses(executor) == []
    assert store.analyses.active()[0].status == "queued"


def test_a_run_and_an_analysis_with_the_same_id_are_distinct(store, finished, dispatcher, executor, clock):
    (run_id,) = queue(store)
    request = [store.analyses.request(finished, kind, {}) for kind in ("a", "b")][-1]
    assert request.id == run_id
    store.analyses.cancel(1)
    dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("analysis", run_id), ("run", run_id)]
    store.analyses.cancel(request.id)
    for clock.now in (1.0, 1.5 + STOP_GRACE_S):
        dispatcher.step()
    assert [ticket.key for ticket in executor.tickets] == [("run", run_id)]
    assert store.analyses.get(request.id).status == "cancelled"
    assert store.queue.get(run_id).status == "running"
    assert "analysis 2 is now cancelled" in store.events.list(finished)[-1].message


def test_an_analysis_that_kills_its_workers_fails(store, finished, dispatcher, executor):
    request = store.analyses.request(finished, "features", {})
    for attempt in range(1, MAX_DEATHS + 1):
        dispatcher.step()
        assert [(t.analysis_id, t.attempts) for t in executor.tickets] == [(request.id, attempt)]
        executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    failed = store.analyses.get(request.id)
    assert failed.status == "failed"
    assert "given up after 3 attempts" in failed.error and "request it again" in failed.error
    assert len(store.events.list(finished)) == MAX_DEATHS
    assert dispatcher.is_idle


def test_refusals_of_an_analysis_do_not_count_as_attempts(store, finished, dispatcher, executor):
    request = store.analyses.request(finished, "features", {})
    for _ in range(MAX_DEATHS + 1):
        dispatcher.step()
        executor.end("lab2: it has torch 1.0", is_refused=True)
    dispatcher.step()
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    analysis = store.analyses.get(request.id)
    assert (analysis.status, analysis.attempts) == ("running", 2)


def test_lost_claims_of_an_analysis_do_not_count_as_attempts(store, finished, dispatcher, executor):
    request = store.analyses.request(finished, "features", {})
    for _ in range(MAX_DEATHS):
        store.analyses.claim()
        dispatcher._claims["analysis"].requeue_lost_claims([])
    dispatcher.step()
    assert [(t.analysis_id, t.attempts) for t in executor.tickets] == [(request.id, 1)]


def test_restarts_of_the_dispatcher_do_not_count_as_attempts(store, finished):
    request = store.analyses.request(finished, "features", {})
    for _ in range(2 * MAX_DEATHS):
        with Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock()) as dispatcher:
            dispatcher.step()
    with Dispatcher(store, executor := FakeExecutor(), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        executor.end("the worker process was killed by signal 9")
        dispatcher.step()
        assert store.analyses.get(request.id).status == "running"


def test_an_analysis_of_a_dead_dispatcher_is_resumed(store, finished, executor):
    request = store.analyses.request(finished, "features", {})
    store.analyses.claim()
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert [(t.analysis_id, t.epoch) for t in executor.tickets] == [(request.id, 2)]
    assert store.analyses.get(request.id).status == "queued"


def test_a_run_deleted_during_its_analysis_frees_the_slot(store, finished, dispatcher, executor, clock):
    store.analyses.request(finished, "features", {})
    dispatcher.step()
    store.queue.delete([finished])
    for clock.now in (1.0, 1.5 + STOP_GRACE_S):
        dispatcher.step()
    assert executor.tickets == []
    assert dispatcher.is_idle


def test_a_worker_death_after_its_run_was_deleted_changes_nothing(store, finished, dispatcher, executor):
    store.analyses.request(finished, "features", {})
    dispatcher.step()
    store.queue.delete([finished])
    executor.end("the worker process was killed by signal 9")
    dispatcher.step()
    assert dispatcher.is_idle
