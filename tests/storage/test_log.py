"""Events and engines."""

from datetime import timedelta

import pytest

from storage import RunNotFound, RunRecord, Store


def test_the_newest_events_are_listed_oldest_first(store: Store, run: RunRecord) -> None:
    for i in range(5):
        store.events.add(run.id if i % 2 else None, "info", "test", f"event {i}")
    events = store.events.list(limit=3)
    assert [e.message for e in events] == ["event 2", "event 3", "event 4"]
    assert [e.message for e in store.events.list(run_id=run.id)] == ["event 1", "event 3"]
    assert [e.message for e in store.events.list(after=events[0].id)] == ["event 3", "event 4"]


def test_events_of_several_runs_are_listed_in_order_of_time(store: Store, run: RunRecord) -> None:
    for run_id, message in ((run.id, "one"), (None, "of nobody"), (run.id, "two")):
        store.events.add(run_id, "info", "test", message)
    assert [e.message for e in store.events.for_runs([run.id, run.id + 1])] == ["one", "two"]
    assert [e.message for e in store.events.for_runs([run.id], limit=1)] == ["two"]
    assert store.events.for_runs([]) == []


def test_deleting_a_run_deletes_its_events(store: Store, run: RunRecord) -> None:
    store.events.add(run.id, "error", "worker", "gone")
    store.queue.finish(run.id, run.epoch, "failed")
    store.queue.delete([run.id])
    assert store.events.list() == []
    with pytest.raises(RunNotFound, match="deleted"):
        store.events.add(run.id, "info", "test", "too late")


def test_an_engine_is_listed_while_it_sends_heartbeats(store: Store) -> None:
    engine_id = store.engines.heartbeat(host="here", pid=7, device="cpu", slots=2, running=0)
    assert store.engines.heartbeat(host="here", pid=7, device="cpu", slots=2, running=1) == engine_id
    (engine,) = store.engines.list()
    assert (engine.pid, engine.slots, engine.running) == (7, 2, 1)
    assert engine.heartbeat_at >= engine.started_at
    assert store.engines.list(fresh_s=-60) == []
    store.engines.remove([engine_id])
    assert store.engines.list() == []


def test_machines_without_recent_heartbeats_are_removed(store: Store) -> None:
    store.engines.heartbeat(host="here", pid=7, device="cpu", slots=2, running=0, cpus=8, gpus=1, problem="old torch")
    store.engines.forget(timedelta(hours=1))
    (machine,) = store.engines.list()
    assert (machine.cpus, machine.gpus, machine.problem) == (8, 1, "old torch")
    store.engines.forget(timedelta(0))
    assert store.engines.list() == []
