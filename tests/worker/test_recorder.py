"""What reaches the database and when, with a fake clock."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

from engine.core.results import RoundResult
from engine.worker.recorder import Recorder, Stop
from storage import DatabaseLocked, Fenced, Store
from tests.worker.fakes import Clock
from tests.worker.samples import claim, kinds, queue, stored_rounds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(store: Store, clock: Callable[[], float]) -> Recorder:
    queue(store)
    ticket = claim(store)
    return Recorder(store, ticket.run_id, ticket.epoch, clock)


def a_round(round: int) -> RoundResult:
    return RoundResult(round, np.array([1], np.int32), {"seconds": 0.1}, {"train_loss": np.ones(4, np.float32)})


def test_rounds_are_written_every_half_second(recorder, store, clock):
    recorder.add(a_round(0), {})
    recorder.add(a_round(1), {})
    assert stored_rounds(store, recorder.run_id).tolist() == []
    clock.now = 0.6
    recorder.tick()
    assert stored_rounds(store, recorder.run_id).tolist() == [0, 1]


def test_a_request_is_read_during_a_long_round(recorder, store, clock):
    store.queue.request([recorder.run_id], "pause")
    recorder.tick()
    clock.now = 0.6
    with pytest.raises(Stop) as stop:
        recorder.tick()
    assert stop.value.control == "pause"


@pytest.mark.parametrize(("control", "is_heard"), [("pause", False), ("cancel", True)])
def test_a_pause_after_the_last_round_is_too_late(recorder, store, clock, control, is_heard):
    store.queue.request([recorder.run_id], control)
    clock.now = 0.6
    with pytest.raises(Stop) if is_heard else nullcontext():
        recorder.add(a_round(0), {}, is_last=True)
    assert stored_rounds(store, recorder.run_id).tolist() == [0]


def test_a_request_is_read_when_rounds_are_written(recorder, store, clock):
    store.queue.request([recorder.run_id], "cancel")
    clock.now = 0.6
    with pytest.raises(Stop):
        recorder.add(a_round(0), {})
    assert stored_rounds(store, recorder.run_id).tolist() == [0]


def test_a_worker_that_lost_its_run_cannot_write(recorder, store, clock):
    store.queue.requeue_running()
    store.queue.claim()
    clock.now = 0.6
    with pytest.raises(Fenced):
        recorder.add(a_round(0), {})
    assert stored_rounds(store, recorder.run_id).tolist() == []


def test_a_checkpoint_is_stored_with_its_rounds_and_two_are_kept(recorder, store):
    for round in range(4):
        recorder.add(a_round(round), {})
        recorder.checkpoint(lambda _, at=round: b"state %d" % at)
    assert stored_rounds(store, recorder.run_id).tolist() == [0, 1, 2, 3]
    assert [a.round for a in store.artifacts.list(recorder.run_id, "checkpoint")] == [3, 2]


def test_parts_are_kept_while_one_of_the_last_two_checkpoints_has_them(recorder, store):
    def parts() -> set[str]:
        return {a.sha256 for a in store.artifacts.list(recorder.run_id, "checkpoint-rows")}

    names: dict[str, str] = {}

    def encode(write: Callable[[bytes], str], letter: str) -> bytes:
        names[letter] = write(letter.encode())
        return letter.upper().encode()

    for round, (letter, used) in enumerate([("a", "a"), ("b", "ab"), ("c", "c"), ("d", "cd")]):
        recorder.add(a_round(round), {})
        recorder.checkpoint(lambda write, new=letter: encode(write, new), lambda of=used: [names[u] for u in of])
        kept = {0: "a", 1: "ab", 2: "abc", 3: "cd"}[round]
        assert parts() == {names[k] for k in kept}


def test_checkpoints_are_due_after_an_interval(recorder, clock):
    clock.now = 9.0
    assert not recorder.checkpoint_is_due(10)
    clock.now = 10.0
    assert recorder.checkpoint_is_due(10)


def test_a_locked_database_keeps_the_rounds_waiting(recorder, store, clock, monkeypatch):
    def locked(*_: object, **__: object) -> str:
        raise DatabaseLocked("locked")

    with monkeypatch.context() as patch:
        patch.setattr(store.metrics, "append", locked)
        clock.now = 0.6
        recorder.add(a_round(0), {})
    clock.now = 1.2
    recorder.add(a_round(1), {})
    assert stored_rounds(store, recorder.run_id).tolist() == [0, 1]


def test_the_seconds_per_round_are_stored(recorder, store, clock):
    for round in range(3):
        clock.now = 3.0 * round
        recorder.add(a_round(round), {})
    assert store.queue.get(recorder.run_id).seconds_per_round == pytest.approx(3.0)


def test_finishing_writes_pending_rounds_and_the_summary(recorder, store):
    recorder.add(a_round(0), {"personalized": {"mean": float("nan")}})
    recorder.finish("done")
    run = store.queue.get(recorder.run_id)
    assert (run.status, run.round, run.summary) == ("done", 0, {"personalized": {"mean": None}})
    assert kinds(store, run.id) == []


@pytest.mark.parametrize("kind", ["checkpoint", "models"])
def test_a_file_written_by_a_previous_owner_is_removed(recorder, store, kind):
    write = {
        "checkpoint": lambda: recorder.checkpoint(lambda _: b"state"),
        "models": lambda: recorder.store_file(store.artifacts.write_file(recorder.run_id, "model-last", 0, b"models")),
    }[kind]
    recorder.round = 0
    store.queue.requeue_running()
    with pytest.raises(Fenced):
        write()
    assert store.artifacts.sweep() == 0
