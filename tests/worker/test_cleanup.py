"""What the dispatcher clears away at its start, and every hour."""

from datetime import timedelta

import pytest

from engine.worker import Dispatcher, cleanup
from engine.worker.dispatcher import CLEANUP_S
from engine.worker.recorder import CHECKPOINT
from storage import RunNotFound
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import claim, kinds, queue


@pytest.fixture
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "TRASH_RETENTION", timedelta(0))


def test_what_was_deleted_today_can_still_be_brought_back(store, dispatcher):
    run_ids = queue(store, seeds=[0, 1])
    store.trash.put(run_ids)
    dispatcher.step()
    assert len(store.trash.list()) == 2
    assert store.events.list() == []


def test_what_has_lain_in_the_trash_for_a_week_goes_at_the_start_and_every_hour(
    store, dispatcher, clock, nothing_is_kept
):
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


def test_checkpoints_that_a_kill_has_left_of_finished_runs_are_deleted(store):
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


def test_files_that_cannot_be_removed_keep_nobody_from_computing(store, executor, caplog, monkeypatch):
    (run_id,) = queue(store)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store.artifacts, "drop_of_finished", refuse)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
    assert executor.run_ids == [run_id]
    assert "check the folder's owner" in caplog.text
