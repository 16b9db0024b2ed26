"""A full disk: rounds wait in memory, runs continue without files, and everything is stored once there is room."""

import logging
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from app.__main__ import Child
from engine.cli.broken_pipe import ignoring_broken_pipes
from engine.core.results import RoundResult
from engine.worker import recorder as recording
from engine.worker.process import work_on
from engine.worker.recorder import Recorder, Stop
from storage import ArtifactNotWritten, DiskFull, NewArtifact, Store
from storage.artifacts import ArtifactStore
from tests.faults.conftest import full_database, no_file_beyond
from tests.worker.fakes import Clock
from tests.worker.samples import claim, compute, kinds, queue, rows, stored_rounds

A_LOT = np.zeros(20_000)


def large(round: int) -> RoundResult:
    return RoundResult(round, np.array([1], np.int32), {"seconds": 0.1}, {"train_loss": A_LOT})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(store: Store, clock: Clock) -> Recorder:
    queue(store)
    ticket = claim(store)
    return Recorder(store, ticket.run_id, ticket.epoch, clock)


@pytest.fixture
def full(store: Store):
    """The database is full until the context is closed."""
    with ExitStack() as stack:
        stack.enter_context(full_database(store))
        yield stack


def test_a_full_database_refuses_requests_with_advice(store: Store, full: ExitStack):
    with pytest.raises(DiskFull, match="free some space"):
        queue(store, seeds=list(range(100)))
    assert store.queue.runs() == []
    assert store.experiments.list() == []


def test_rounds_wait_in_memory_until_there_is_room(store, recorder, clock, full):
    for round in range(4):
        clock.now += 0.6
        recorder.add(large(round), {"personalized": {"mean": 0.5}})
    assert stored_rounds(store, recorder.run_id).tolist() == []
    full.close()
    clock.now += 30.0
    recorder.add(large(4), {"personalized": {"mean": 0.6}})
    assert stored_rounds(store, recorder.run_id).tolist() == [0, 1, 2, 3, 4]
    assert store.queue.get(recorder.run_id).summary == {"personalized": {"mean": 0.6}}
    recorder.finish("done")
    (event,) = store.events.list(recorder.run_id)
    assert "for 32 s nothing could be stored" in event.message and "5 rounds were held" in event.message


def test_training_waits_when_the_memory_for_rounds_is_used_up(store, recorder, clock, full, while_waiting, monkeypatch):
    monkeypatch.setattr(recording, "MAX_PENDING_BYTES", 4 * A_LOT.nbytes)

    def pass_time() -> None:
        clock.now += 1.0
        full.close()

    pauses = while_waiting(pass_time)
    for round in range(3):
        recorder.add(large(round), {})
    assert pauses == []
    recorder.add(large(3), {})
    assert len(pauses) == 1
    assert stored_rounds(store, recorder.run_id).tolist() == [0, 1, 2, 3]


def test_the_end_of_a_run_waits_for_room_and_sends_heartbeats(store, recorder, full, while_waiting):
    recorder.add(large(0), {})
    seen = []

    def look() -> None:
        seen.append(store.queue.get(recorder.run_id).heartbeat_at)
        if len(seen) == 3:
            full.close()

    while_waiting(look)
    assert recorder.finish("done") == "done"
    assert seen[0] < seen[1] < seen[2]
    assert stored_rounds(store, recorder.run_id).tolist() == [0]


def test_a_request_is_read_without_room_for_rounds(store, recorder, clock, full):
    store.queue.request([recorder.run_id], "cancel")
    clock.now = 0.6
    with pytest.raises(Stop):
        recorder.add(large(0), {})
    assert stored_rounds(store, recorder.run_id).tolist() == []


@pytest.mark.slow
def test_a_disk_that_is_full_at_times_does_not_change_results(store, while_waiting, monkeypatch):
    undisturbed = compute(store)
    queue(store)
    ticket = claim(store)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    with ExitStack() as stack:
        stack.enter_context(full_database(store))
        while_waiting(stack.close)
        work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", undisturbed.summary)
    assert rows(store, run.id) == rows(store, undisturbed.id)
    assert store.artifacts.sweep() == 0


def test_a_checkpoint_without_room_is_retried_and_logged_once(store, recorder):
    with no_file_beyond(1000):
        for round in range(3):
            recorder.add(RoundResult(round, np.array([1], np.int32), {}, {}), {})
            recorder.checkpoint(lambda _: bytes(2000))
    assert kinds(store, recorder.run_id) == []
    recorder.checkpoint(lambda _: bytes(2000))
    recorder.finish("paused")
    assert kinds(store, recorder.run_id) == ["checkpoint"]
    first, second = store.events.list(recorder.run_id)
    assert (first.level, "continues without new checkpoints" in first.message) == ("warning", True)
    assert "free some space" in first.message
    assert "stored again, from round 2" in second.message
    assert store.artifacts.sweep() == 0


def test_a_slow_disk_leaves_time_for_training(recorder, clock, store, monkeypatch):
    write = store.artifacts.write_file

    def slowly(*args):
        clock.now += 15.0
        return write(*args)

    monkeypatch.setattr(store.artifacts, "write_file", slowly)
    recorder.add(RoundResult(0, np.array([1], np.int32), {}, {}), {})
    recorder.checkpoint(lambda _: b"state")
    assert not recorder.checkpoint_is_due(10)


def test_a_checkpoint_that_cannot_be_registered_leaves_no_file(store, recorder, clock, full):
    recorder.add(large(0), {})
    recorder.checkpoint(lambda _: b"state")
    clock.now = 1000.0
    assert not recorder.checkpoint_is_due(10)
    full.close()
    recorder.tick()
    assert recorder.checkpoint_is_due(10)
    assert stored_rounds(store, recorder.run_id).tolist() == [0]
    assert store.artifacts.sweep() == 0


@pytest.mark.slow
def test_a_run_without_room_for_files_has_the_same_results(store: Store):
    undisturbed = compute(store)
    queue(store)
    ticket = claim(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArtifactStore, "write_file", beyond_its_size(ArtifactStore.write_file))
        work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.error, run.summary) == ("done", None, undisturbed.summary)
    assert rows(store, run.id) == rows(store, undisturbed.id)
    assert kinds(store, run.id) == []
    events = [event.kind for event in store.events.list(run.id)]
    assert events == ["checkpoint", "models", "models"]


def beyond_its_size(write_file):
    def write(*args) -> NewArtifact:
        with no_file_beyond(len(args[-1]) // 2):
            return write_file(*args)

    return write


def test_a_file_without_room_is_reported_and_removed(store: Store):
    with no_file_beyond(1000), pytest.raises(ArtifactNotWritten, match="free some space"):
        store.artifacts.write_file(1, "checkpoint", 0, bytes(2000))
    assert [path for path in store.artifacts.folder.rglob("*") if path.is_file()] == []


def test_an_exhausted_quota_is_reported_like_a_full_disk(store: Store):
    with no_file_beyond(65536), pytest.raises(DiskFull, match="quota"):
        queue(store, seeds=list(range(100)))
    assert store.queue.runs() == []


def test_without_room_for_a_backup_nothing_is_migrated(store: Store, tmp_path: Path):
    store.queue.counts()
    with no_file_beyond(65536), pytest.raises(DiskFull, match="free at least the size"):
        store._database.back_up("0001")
    assert list(tmp_path.glob("*backup*")) == []
    assert store._database.back_up("0001").exists()


def test_a_log_without_room_does_not_stop_the_writer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with open(tmp_path / "log", "w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        child = Child("worker", [], {})
        with ignoring_broken_pipes(), no_file_beyond(0):
            child.keep_running(0.0)
            logging.getLogger("engine.worker").warning("a message of the dispatcher")
    assert child.failures == 1
    assert (tmp_path / "log").read_text() == ""
