"""What the dispatcher cleans up at its start and every hour."""

from datetime import timedelta

import pytest

from engine.worker import Dispatcher, cleanup
from engine.worker.dispatcher import CLEANUP_S
from engine.worker.recorder import CHECKPOINT
from storage import RunNotFound
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import claim, kinds, queue


@pytest.fixture
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "TRASH_RETENTION", timedelta(0))


def test_a_run_deleted_today_can_be_restored(store, dispatcher):
    run_ids = queue(store, seeds=[0, 1])
    store.trash.put(run_ids)
    dispatcher.step()
    assert len(store.trash.list()) == 2
    assert store.events.list() == []


def test_week_old_trash_is_emptied_at_the_start_and_every_hour(store, dispatcher, clock, no_retention):
    first, second = queue(store, seeds=[0, 1])
    store.trash.put([first])
    dispatcher.step()
    assert store.trash.list() == []
    with pytest.raises(RunNotFound):
        store.queue.get(first)
    assert "1 run deleted" in store.events.list()[0].message
    dispatcher._tickets.clear()
    store.queue.requeue_running()
    store.trash.put([second])
    clock.now = CLEANUP_S - 1
    dispatcher.step()
    assert [run.id for run in store.trash.list()] == [second]
    clock.now = CLEANUP_S
    dispatcher.step()
    assert store.trash.list() == []


def test_leftover_checkpoints_of_finished_runs_are_deleted(store):
    finished, waiting = queue(store, seeds=[0, 1])
    for end in ("done", "paused"):
        ticket = claim(store)
        for kind in (CHECKPOINT, "model-last"):
            file = store.artifacts.write_file(ticket.run_id, kind, 3, b"state")
            store.artifacts.register(ticket.run_id, ticket.epoch, file)
        store.queue.finish(ticket.run_id, ticket.epoch, end)
    with Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
    assert kinds(store, finished) == ["model-last"]
    assert kinds(store, waiting) == [CHECKPOINT, "model-last"]
    assert store.artifacts.sweep() == 0


def test_files_that_cannot_be_removed_do_not_stop_computing(store, executor, caplog, monkeypatch):
    finished, waiting = queue(store, seeds=[0, 1])
    ticket = claim(store)
    file = store.artifacts.write_file(finished, CHECKPOINT, 3, b"state")
    store.artifacts.register(finished, ticket.epoch, file)
    store.queue.finish(finished, ticket.epoch, "done")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store.artifacts.files, "remove", refuse)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
    assert executor.run_ids == [waiting]
    assert kinds(store, finished) == []
    assert "check the folder's owner" in caplog.text
