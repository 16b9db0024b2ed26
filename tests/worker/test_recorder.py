"""What reaches the database and when, with a fake clock."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from engine.core.results import RoundResult
from engine.worker import retry
from engine.worker.recorder import CHECKPOINT_KINDS, Recorder, Stop
from engine.worker.retry import Outage
from storage import ArtifactRecord, DatabaseLocked, DatabaseUnavailable, Fenced, Store
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


@pytest.mark.parametrize(("rounds", "held"), [(1, "1 round was"), (2, "2 rounds were")])
def test_the_message_after_an_outage_counts_the_rounds_that_waited(clock, rounds, held):
    outage = Outage(clock)
    outage.begin(DatabaseLocked("it was locked"), 1)
    clock.now = 5.0
    assert outage.end(rounds) == f"for 5 s nothing could be stored (it was locked); {held} held in memory"


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


def test_a_previous_owner_deletes_no_checkpoints_and_parts_of_the_next(recorder, store, monkeypatch):
    recorder.add(a_round(0), {})
    recorder.checkpoint(lambda _: b"before")
    listed = {kind: [put(store, recorder.run_id, kind, round) for round in (1, 2, 3)] for kind in CHECKPOINT_KINDS}
    append = store.metrics.append

    def append_and_lose(*args: Any, **kwargs: Any) -> str:
        append(*args, **kwargs)
        store.queue.requeue_running()
        store.queue.claim()
        return ""

    monkeypatch.setattr(store.metrics, "append", append_and_lose)
    with pytest.raises(Fenced):
        recorder.checkpoint(lambda _: b"last")
    with pytest.raises(Fenced):
        recorder._drop_parts(set())
    stored = {artifact.id for artifact in store.artifacts.list(recorder.run_id)}
    assert all(artifact.id in stored for kind in CHECKPOINT_KINDS for artifact in listed[kind])


def put(store: Store, run_id: int, kind: str, round: int) -> ArtifactRecord:
    return store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, kind, round, b"of the next owner"))


def test_a_file_registered_without_a_reply_stays_when_the_run_has_another_owner(recorder, store, monkeypatch):
    file = store.artifacts.write_file(recorder.run_id, "model-last", 0, b"models")
    append = store.metrics.append

    def append_without_a_reply(*args: Any, **kwargs: Any) -> None:
        append(*args, **kwargs)
        monkeypatch.setattr(store.metrics, "append", lose_and_append)
        raise DatabaseUnavailable("the server does not answer")

    def lose_and_append(*args: Any, **kwargs: Any) -> None:
        store.queue.requeue_running()
        store.queue.claim()
        append(*args, **kwargs)

    monkeypatch.setattr(store.metrics, "append", append_without_a_reply)
    monkeypatch.setattr(retry.time, "sleep", lambda seconds: None)
    with pytest.raises(Fenced):
        recorder.store_file(file)
    (artifact,) = store.artifacts.list(recorder.run_id, "model-last")
    assert store.artifacts.read(artifact) == b"models"
