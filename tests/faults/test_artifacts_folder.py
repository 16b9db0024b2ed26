"""An artifacts folder that cannot be written or cleaned: runs compute, and what is missing is logged."""

import errno
import os
from pathlib import Path

import pytest

from engine.worker import Dispatcher
from engine.worker.process import work_on
from storage import ArtifactNotWritten, Store
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import claim, claim_analysis, compute, kinds, queue, rows


@pytest.fixture
def blocked_folder(store: Store) -> Path:
    """A file in place of the folder: not even root can write into it."""
    store.artifacts.folder.write_text("a file")
    return store.artifacts.folder


@pytest.mark.slow
def test_a_run_completes_without_checkpoints_and_models(store: Store, blocked_folder: Path):
    run = compute(store)
    assert (run.status, run.error, run.round) == ("done", None, 6)
    first, *others = store.events.list(run.id)
    assert "the run continues without new checkpoints: cannot write" in first.message
    assert "check the owner and the permissions of the folder" in first.message
    assert [event.kind for event in others] == ["models", "models"]
    blocked_folder.unlink()
    assert rows(store, run.id) == rows(store, compute(store).id)


def test_a_killed_run_restarts_from_its_first_round(store: Store, blocked_folder: Path):
    run_id = compute(store).id
    queue(store)
    work_on(store, claim(store))
    assert rows(store, run_id + 1) == rows(store, run_id)


def test_an_analysis_fails_at_once_with_advice(store: Store, monkeypatch):
    run = compute(store)
    request = store.analyses.request(run.id, "confusion", {"which": "last"})

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        work_on(store, claim_analysis(store))
    failed = store.analyses.get(request.id)
    assert (failed.status, failed.attempts) == ("failed", 1)
    assert "could not be stored" in failed.error and "then request it again" in failed.error
    store.analyses.request(run.id, "confusion", {"which": "last"})
    work_on(store, claim_analysis(store))
    assert store.analyses.get(request.id).status == "done"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EIO], ids=["not the owner", "read-only", "broken"])
def test_files_that_cannot_be_removed_are_swept_later(store: Store, monkeypatch, number):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        run = compute(store)
        with Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock()) as dispatcher:
            dispatcher.step()
        store.trash.put([run.id])
        assert store.trash.empty() == 1
    assert run.status == "done"
    assert kinds(store, run.id) == []
    assert store.artifacts.sweep() >= 5


def test_a_full_artifacts_disk_rejects_files(store: Store, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ArtifactNotWritten, match=r"No space left on device.*free some space on this disk"):
            store.artifacts.write_file(1, "checkpoint", 0, b"x")
    assert [path for path in store.artifacts.folder.rglob("*") if path.is_file()] == []
