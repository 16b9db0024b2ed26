"""Deleted runs are hidden but complete and can be restored until the trash is emptied."""

from contextlib import closing
from datetime import timedelta

import pytest
import sqlalchemy as sa

from storage import DatabaseLocked, RunNotFound, RunRecord, RunsActive, Store, trash
from tests.storage.samples import a_round, create, new_run


@pytest.fixture
def done(store: Store, run: RunRecord) -> RunRecord:
    """A finished run with a round and a file."""
    file = store.artifacts.write_file(run.id, "model-last", 0, b"models")
    store.metrics.append(run.id, run.epoch, [a_round(0)], checkpoint=file)
    store.queue.finish(run.id, run.epoch, "done")
    return store.queue.get(run.id)


def test_a_deleted_run_is_hidden_everywhere(store: Store, done: RunRecord) -> None:
    store.trash.put([done.id])
    assert store.queue.runs(include_archived=True) == store.queue.find_by_digest([done.digest]) == []
    assert store.experiments.list(include_archived=True) == [] and store.queue.counts() == {}
    with pytest.raises(RunNotFound):
        store.queue.get(done.id)
    (trashed,) = store.trash.list()
    assert store.trash.ids() == [done.id]
    assert trashed.id == done.id and trashed.deleted_at is not None


def test_a_restored_run_has_its_rounds_and_files(store: Store, done: RunRecord) -> None:
    store.trash.put([done.id])
    store.trash.restore([done.id])
    assert store.queue.get(done.id).summary == done.summary
    assert [r.round for r in store.metrics.rounds(done.id)] == [0]
    assert store.artifacts.read(store.artifacts.latest(done.id, "model-last")) == b"models"
    assert store.trash.list() == [] and store.experiments.list()[0].num_runs == 1


def test_a_queued_run_in_the_trash_is_not_claimed(store: Store) -> None:
    store.experiments.create("x", {}, [new_run(0), new_run(1)])
    first, second = (run.id for run in store.queue.waiting())
    store.trash.put([first])
    assert [run.id for run in store.queue.waiting()] == [second]
    claimed = store.queue.claim()
    assert claimed is not None and claimed.id == second and store.queue.claim() is None
    store.trash.restore([first])
    back = store.queue.claim()
    assert back is not None and back.id == first


def test_deleting_is_refused_if_one_run_is_running(store: Store, run: RunRecord) -> None:
    store.experiments.create("x", {}, [new_run(1)])
    other = store.queue.waiting()[0].id
    with pytest.raises(RunsActive, match="cancel it"):
        store.trash.put([run.id, other])
    assert store.trash.list() == []


def test_only_runs_in_the_trash_are_deleted_permanently(store: Store, done: RunRecord) -> None:
    store.experiments.create("x", {}, [new_run(1), new_run(2)])
    first, second = (run.id for run in store.queue.waiting())
    store.trash.put([done.id, first])
    store.trash.restore([first])
    assert store.trash.delete([done.id, first, second]) == 1
    assert store.trash.list() == [] and {run.id for run in store.queue.runs()} == {first, second}
    assert not list(store.artifacts.folder.glob("*/*"))


def test_emptying_permanently_deletes_old_trash(store: Store, done: RunRecord) -> None:
    store.trash.put([done.id])
    assert store.trash.empty(timedelta(days=1)) == 0 and len(store.trash.list()) == 1
    assert store.trash.empty() == 1 and store.trash.list() == []
    assert store.metrics.rounds(done.id) == [] and not list(store.artifacts.folder.glob("*/*"))
    assert store.experiments.list(include_archived=True) == []


@pytest.mark.parametrize("how", ["delete", "empty"])
def test_many_runs_are_deleted_in_several_transactions(store: Store, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    run_ids, left = create(store, 5), []
    store.trash.put(run_ids)
    monkeypatch.setattr(trash, "AT_ONCE", 2)
    monkeypatch.setattr(store.artifacts, "remove_files", lambda paths: left.append(len(store.trash.ids())))
    assert (store.trash.delete(run_ids) if how == "delete" else store.trash.empty()) == 5
    assert left == [3, 1, 0]


def test_a_run_that_is_being_deleted_permanently_cannot_be_restored(
    store: Store, done: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.trash.put([done.id])
    delete_runs = trash.delete_runs

    def restore_meanwhile(connection: sa.Connection, run_ids: list[int]) -> list[str]:
        with closing(Store(store.url, timeout_s=0.05)) as other, pytest.raises(DatabaseLocked):
            other.trash.restore(run_ids)
        return delete_runs(connection, run_ids)

    monkeypatch.setattr(trash, "delete_runs", restore_meanwhile)
    assert store.trash.empty() == 1 and store.queue.runs() == []
