"""Runs are claimed once, owned by one epoch at a time, and obey requests to stop."""

from collections.abc import Callable

import pytest

from storage import Fenced, NewArtifact, RunNotFound, RunRecord, RunsActive, Store
from storage.run_queue import FIRST_OF_RERUNS
from tests.storage.samples import a_round, create, new_run

FILE = NewArtifact("checkpoint", 0, "1/checkpoint.bin", "0" * 64, 3)
WRITES: dict[str, Callable[[Store, int, int], object]] = {
    "append": lambda s, run, epoch: s.metrics.append(run, epoch, [a_round(0)]),
    "rewind": lambda s, run, epoch: s.metrics.rewind(run, epoch, -1),
    "heartbeat": lambda s, run, epoch: s.queue.heartbeat(run, epoch),
    "describe": lambda s, run, epoch: s.queue.describe(run, epoch, {"a": 1}, {"b": 2}),
    "finish": lambda s, run, epoch: s.queue.finish(run, epoch, "done"),
    "pause": lambda s, run, epoch: s.queue.finish(run, epoch, "paused"),
    "requeue": lambda s, run, epoch: s.queue.requeue(run, epoch),
    "register": lambda s, run, epoch: s.artifacts.register(run, epoch, FILE),
}


def status(store: Store, run_id: int) -> str:
    return store.queue.get(run_id).status


def test_the_oldest_queued_run_is_claimed_once(store: Store) -> None:
    first, second = create(store, 2)
    claimed = [store.queue.claim(), store.queue.claim(), store.queue.claim()]
    assert [c.id if c else None for c in claimed] == [first, second, None]


def test_a_claim_can_be_limited_to_some_runs(store: Store) -> None:
    _, second = create(store, 2)
    claimed = store.queue.claim(run_ids=[second])
    assert claimed is not None
    assert claimed.id == second
    assert store.queue.claim(run_ids=[second]) is None


def test_each_claim_raises_the_epoch_and_keeps_the_first_start(store: Store, run: RunRecord) -> None:
    store.queue.requeue(run.id, run.epoch)
    again = store.queue.claim()
    assert again is not None
    assert (run.epoch, again.epoch) == (1, 2)
    assert (run.status, again.status) == ("running", "running")
    assert again.started_at == run.started_at is not None


@pytest.mark.parametrize("write", WRITES)
def test_an_old_epoch_cannot_write(store: Store, run: RunRecord, write: str) -> None:
    store.queue.requeue(run.id, run.epoch)
    store.queue.claim()
    before = store.queue.get(run.id)
    with pytest.raises(Fenced, match="stop"):
        WRITES[write](store, run.id, run.epoch)
    assert store.queue.get(run.id) == before
    assert store.metrics.rounds(run.id) == []
    assert store.artifacts.list(run.id) == []


@pytest.mark.parametrize("write", WRITES)
def test_a_finished_run_rejects_writes(store: Store, run: RunRecord, write: str) -> None:
    store.queue.finish(run.id, run.epoch, "done")
    with pytest.raises(Fenced):
        WRITES[write](store, run.id, run.epoch)


def test_the_id_of_a_deleted_run_is_not_reused(store: Store, run: RunRecord) -> None:
    store.queue.finish(run.id, run.epoch, "cancelled")
    store.queue.delete([run.id])
    assert create(store, 1)[0] > run.id


def test_a_starting_dispatcher_requeues_running_runs(store: Store) -> None:
    plain, cancel, pause, waiting = create(store, 4)
    for _ in range(3):
        store.queue.claim()
    store.queue.request([cancel], "cancel")
    store.queue.request([pause], "pause")
    assert store.queue.requeue_running() == [plain]
    assert [status(store, i) for i in (plain, cancel, pause, waiting)] == ["queued", "cancelled", "paused", "queued"]
    assert store.queue.get(cancel).finished_at is not None
    assert store.queue.get(plain).finished_at is None


def test_a_run_whose_worker_died_while_cancelling_is_cancelled(store: Store, run: RunRecord) -> None:
    store.queue.request([run.id], "cancel")
    assert store.queue.requeue(run.id, run.epoch) == "cancelled"


def test_a_heartbeat_returns_the_request_to_the_run(store: Store, run: RunRecord) -> None:
    assert store.queue.heartbeat(run.id, run.epoch, seconds_per_round=0.25) == ""
    store.queue.request([run.id], "pause")
    assert store.queue.heartbeat(run.id, run.epoch) == "pause"
    assert store.metrics.append(run.id, run.epoch, [a_round(0)]) == "pause"
    assert store.queue.get(run.id).seconds_per_round == 0.25


def test_cancelling_overrides_a_pause(store: Store, run: RunRecord) -> None:
    store.queue.request([run.id], "cancel")
    store.queue.request([run.id], "pause")
    assert store.queue.heartbeat(run.id, run.epoch) == "cancel"


def test_a_queued_run_obeys_a_request_at_once(store: Store) -> None:
    first, second = create(store, 2)
    store.queue.request([first, second], "pause")
    store.queue.request([second], "cancel")
    assert (status(store, first), status(store, second)) == ("paused", "cancelled")
    store.queue.resume([first, second])
    assert (status(store, first), status(store, second)) == ("queued", "cancelled")


def test_resuming_withdraws_a_pending_pause(store: Store, run: RunRecord) -> None:
    store.queue.request([run.id], "pause")
    store.queue.resume([run.id])
    assert store.queue.heartbeat(run.id, run.epoch) == ""


def test_a_finished_run_ignores_requests(store: Store, run: RunRecord) -> None:
    store.queue.finish(run.id, run.epoch, "done")
    for control in ("cancel", "pause"):
        store.queue.request([run.id], control)
    store.queue.resume([run.id])
    assert status(store, run.id) == "done"


def test_finishing_stores_the_last_rounds_with_the_status(store: Store, run: RunRecord) -> None:
    last = [a_round(0), a_round(1)]
    store.queue.finish(run.id, run.epoch, "diverged", error="loss", summary={"mean": 0.5}, rounds=last)
    ended = store.queue.get(run.id)
    assert (ended.status, ended.error, ended.summary, ended.round) == ("diverged", "loss", {"mean": 0.5}, 1)
    assert ended.finished_at is not None
    assert len(store.metrics.rounds(run.id)) == 2


def test_a_null_character_in_an_error_is_replaced(store: Store, run: RunRecord) -> None:
    store.events.add(run.id, "error", "traceback", "a\0b")
    store.queue.finish(run.id, run.epoch, "failed", error="a\0b")
    assert store.queue.get(run.id).error == "a\N{REPLACEMENT CHARACTER}b"
    assert "a\N{REPLACEMENT CHARACTER}b" in [event.message for event in store.events.list(run.id)]


def test_a_paused_run_is_not_finished(store: Store, run: RunRecord) -> None:
    store.queue.request([run.id], "pause")
    assert store.queue.finish(run.id, run.epoch, "paused") == "paused"
    paused = store.queue.get(run.id)
    assert (paused.status, paused.finished_at, paused.is_active, paused.is_finished) == ("paused", None, False, False)


def test_a_cancel_request_while_the_run_pauses_is_not_lost(store: Store, run: RunRecord) -> None:
    store.queue.request([run.id], "pause")
    store.queue.request([run.id], "cancel")
    assert store.queue.finish(run.id, run.epoch, "paused") == "cancelled"
    assert store.queue.get(run.id).finished_at is not None


def test_a_run_resumed_while_pausing_is_queued_again(store: Store, run: RunRecord) -> None:
    store.queue.request([run.id], "pause")
    store.queue.resume([run.id])
    assert store.queue.finish(run.id, run.epoch, "paused", rounds=[a_round(0)]) == "queued"
    assert store.queue.claim() is not None


def test_a_description_keeps_omitted_fields(store: Store, run: RunRecord) -> None:
    store.queue.describe(run.id, run.epoch, provenance={"device": "cpu"}, worker="slot 0")
    store.queue.describe(run.id, run.epoch, partition={"train_sizes": [1]})
    store.queue.describe(run.id, run.epoch, partition={"train_sizes": [2]})
    described = store.queue.get(run.id)
    assert (described.provenance, described.partition, described.worker) == (
        {"device": "cpu"},
        {"train_sizes": [2]},
        "slot 0",
    )
    assert store.queue.runs(with_partition=False)[0].partition is None


def test_runs_are_filtered_ordered_and_limited(store: Store) -> None:
    ids = create(store, 3)
    store.queue.archive([ids[1]])
    store.queue.claim()
    assert [r.id for r in store.queue.runs()] == [ids[2], ids[0]]
    assert [r.id for r in store.queue.runs(include_archived=True, newest_first=False, limit=2)] == ids[:2]
    assert [r.id for r in store.queue.runs(statuses=["running"])] == [ids[0]]
    assert [r.id for r in store.queue.runs(run_ids=ids[:2], include_archived=True)] == [ids[1], ids[0]]
    assert store.queue.runs(run_ids=[]) == []
    assert store.queue.counts() == {"running": 1, "queued": 2}
    assert store.queue.ids(["queued"]) == ids[1:]
    create(store, 1)
    own = [store.queue.get(ids[0]).experiment_id]
    assert (store.queue.ids(experiment_ids=own), store.queue.ids(["running"], experiment_ids=own)) == (ids, ids[:1])
    store.queue.delete([i for i in store.queue.ids() if i not in ids])
    store.trash.put([ids[2]])
    assert store.queue.ids(["queued", "running"]) == ids[:2]


def test_runs_with_the_same_configuration_are_found_by_digest(store: Store) -> None:
    ids = create(store, 2)
    assert [r.id for r in store.queue.find_by_digest(["digest-1", "unknown"])] == [ids[1]]


def test_a_rerun_is_a_new_queued_run_beside_the_old_one(store: Store, run: RunRecord) -> None:
    store.queue.finish(run.id, run.epoch, "done", rounds=[a_round(0)])
    (again,) = store.queue.rerun([run.id])
    assert (again.status, again.round, again.epoch, again.position) == ("queued", -1, 0, FIRST_OF_RERUNS)
    assert (again.experiment_id, again.config, again.digest) == (run.experiment_id, run.config, run.digest)
    assert status(store, run.id) == "done"


def test_retrying_reruns_only_failed_and_diverged_runs(store: Store) -> None:
    ids = create(store, 3)
    for end in ("done", "failed", "diverged"):
        claimed = store.queue.claim()
        assert claimed is not None
        store.queue.finish(claimed.id, claimed.epoch, end)
    assert [r.seed for r in store.queue.retry(ids)] == [1, 2]


def test_retrying_a_cancelled_run_twice_queues_one(store: Store) -> None:
    (run_id,) = create(store, 1)
    store.queue.request([run_id], "cancel")
    first = store.queue.retry([run_id], ["cancelled"])
    assert store.queue.retry([run_id], ["cancelled"]) == first
    assert store.queue.retry([run_id]) == []


def test_runs_that_differ_in_their_labels_only_are_both_retried(store: Store) -> None:
    store.experiments.create("x", {}, [new_run(label="Ditto"), new_run(label="again")])
    ids = store.queue.ids()
    store.queue.request(ids, "cancel")
    (first,) = store.queue.retry(ids[:1], ["cancelled"])
    both = store.queue.retry(ids, ["cancelled"])
    assert [run.label for run in both] == ["Ditto", "again"] and both[0] == first
    assert store.queue.retry(ids, ["cancelled"]) == both
    assert store.queue.counts() == {"cancelled": 2, "queued": 2}


def test_the_newest_rerun_of_a_run_is_found(store: Store) -> None:
    first, other = create(store, 2)
    assert store.queue.repeats([first, other]) == {}
    store.queue.rerun([first])
    (newest,) = store.queue.rerun([first])
    assert store.queue.repeats([first, other, newest.id]) == {first: newest.id}
    create(store, 2)  # the same runs in another experiment are no reruns
    assert store.queue.repeats([first, other]) == {first: newest.id}
    store.queue.delete([newest.id])
    assert store.queue.repeats([first]) == {first: newest.id - 1}


def test_unknown_runs_are_reported_by_id(store: Store) -> None:
    (last,) = create(store, 1)
    with pytest.raises(RunNotFound, match=f"no run with id {last + 1}"):
        store.queue.get(last + 1)
    with pytest.raises(RunNotFound, match=f"{last + 1}, {last + 2}"):
        store.queue.rerun([last + 2, last + 1])


def test_an_id_beyond_the_database_range_is_an_unknown_run(store: Store, run: RunRecord) -> None:
    for unknown in (2**31, 2**63):
        with pytest.raises(RunNotFound, match=str(unknown)):
            store.queue.get(unknown)
        assert [found.id for found in store.queue.runs(run_ids=[run.id, unknown])] == [run.id]
        store.queue.request([run.id, unknown], "cancel")
        assert store.events.list(unknown) == store.artifacts.list(unknown) == []
    assert store.queue.get(run.id).control == "cancel"


def test_a_running_run_is_not_deleted(store: Store, run: RunRecord) -> None:
    with pytest.raises(RunsActive, match=f"run {run.id} is still running"):
        store.queue.delete([run.id])
    assert status(store, run.id) == "running"


def test_deleting_removes_rows_files_and_an_empty_experiment(store: Store) -> None:
    first, second = create(store, 2)
    for _ in range(2):
        claimed = store.queue.claim()
        assert claimed is not None
        file = store.artifacts.write_file(claimed.id, "checkpoint", 0, b"state")
        store.metrics.append(claimed.id, claimed.epoch, [a_round(0, clusters=[0, 1, 0, 1])], checkpoint=file)
        store.queue.finish(claimed.id, claimed.epoch, "done")
    store.queue.delete([first])
    assert store.metrics.rounds(first) == []
    assert store.artifacts.list(first) == []
    assert len(list(store.artifacts.folder.glob("*/*"))) == len(store.artifacts.list(second)) == 1
    assert len(store.experiments.list()) == 1
    store.queue.delete([second])
    assert store.experiments.list() == []
