"""One claimed run, computed in this process: how it can end, and what is stored."""

import math

import pytest
import torch

from engine.core import client_rows
from engine.core.errors import DataUnavailable
from engine.core.vocabulary import MODELS_OF
from engine.export.saved_models import unpack
from engine.simulation.simulate import Simulation
from engine.worker import process, recorder, retry, session
from engine.worker.process import work_on
from engine.worker.recorder import CHECKPOINT_ROWS, Recorder, Stop
from engine.worker.session import Session
from engine.worker.slots import Slot
from storage import DatabaseUnavailable, Store
from tests.storage.samples import a_round
from tests.worker.samples import claim, compute, kinds, queue, rows, stored_rounds


def request_after_round(monkeypatch: pytest.MonkeyPatch, round: int, control: str) -> None:
    """Makes the request arrive in the first local step after ``round`` was recorded."""

    def tick(recorder: Recorder) -> None:
        if recorder.round == round:
            recorder.store.queue.request([recorder.run_id], control)  # type: ignore[arg-type]
            raise Stop(control)  # type: ignore[arg-type]

    monkeypatch.setattr(Recorder, "tick", tick)


def test_a_finished_run_has_all_rounds_a_summary_and_its_provenance(store: Store):
    run = compute(store)
    assert (run.status, run.error, run.round) == ("done", None, 6)
    assert stored_rounds(store, run.id).tolist() == list(range(7))
    assert run.summary["personalized"]["mean"] == store.metrics.rounds(run.id)[-1].scalars["personalized.mean"]
    assert run.provenance["threads"] == 1
    assert len(run.partition["train_sizes"]) == 4


def test_a_finished_run_keeps_models_but_no_checkpoints(store: Store):
    run = compute(store)
    assert kinds(store, run.id) == sorted(MODELS_OF.values())
    last, best = (store.artifacts.latest(run.id, kind) for kind in MODELS_OF.values())
    assert last.round == 6
    assert best.round == run.summary["best"]["personalized"]["round"]
    models = unpack(store.artifacts.read(last))
    assert len(models.personalized) == 4
    assert models.initial.keys() == models.global_model.keys() == models.personalized[3].keys()


def test_models_that_are_too_large_are_skipped_and_logged(store: Store, monkeypatch):
    monkeypatch.setenv("FEDSCAPE_MODELS_MB", "0.0001")
    run = compute(store)
    assert kinds(store, run.id) == []
    messages = [event.message for event in store.events.list(run.id)]
    assert len(messages) == 2 and all("exceed FEDSCAPE_MODELS_MB=0.0001" in message for message in messages)
    assert run.status == "done"


def test_a_diverged_run_reports_the_round_and_keeps_its_rounds(store: Store):
    run = compute(store, training__lr=1e30)
    assert run.status == "diverged"
    assert "is not finite in round" in run.error
    assert run.round == stored_rounds(store, run.id)[-1] < 6


def test_a_previous_owner_that_resumes_deletes_no_models_of_the_next(store: Store, monkeypatch):
    (run_id,) = queue(store)
    ticket = claim(store)
    store.metrics.append(run_id, ticket.epoch, [a_round(0)])
    rewind, kind = store.metrics.rewind, MODELS_OF["last"]

    def rewind_and_lose(*args: int) -> None:
        rewind(*args)
        store.queue.requeue_running()
        next_owner = claim(store)
        store.artifacts.register(run_id, next_owner.epoch, store.artifacts.write_file(run_id, kind, 6, b"models"))

    monkeypatch.setattr(store.metrics, "rewind", rewind_and_lose)
    work_on(store, ticket)
    assert kinds(store, run_id) == [kind]


@pytest.mark.parametrize(("lr", "last", "status"), [(1e30, 1, "diverged"), (0.1, 6, "done")])
def test_a_pause_in_the_last_round_has_no_effect(store: Store, monkeypatch, lr, last, status):
    def evaluate_late(simulation: Simulation) -> dict:
        values = evaluate(simulation)
        if simulation.round == last:
            store.queue.request([run.id for run in store.queue.runs()], "pause")
        return values

    evaluate = Simulation._evaluate
    monkeypatch.setattr(Simulation, "_evaluate", evaluate_late)
    monkeypatch.setattr(recorder, "WRITE_S", 0.0)
    run = compute(store, training__lr=lr)
    assert (run.status, run.is_finished) == (status, True)


def test_a_run_that_cannot_start_fails_with_a_reason(store: Store, monkeypatch):
    def absent(*_: object, **__: object) -> None:
        raise DataUnavailable("put the file there")

    monkeypatch.setattr(session, "Simulation", absent)
    run = compute(store)
    assert (run.status, run.error) == ("failed", "put the file there")


def test_an_unreadable_plugin_fails_the_run_and_is_named(store: Store, monkeypatch, tmp_path):
    queue(store)
    ticket = claim(store)
    (tmp_path / "my_method.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    process.warm_up(Slot(threads=1))
    work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert run.status == "failed"
    assert "my_method.py" in run.error and "nothing_of_this_name" in run.error


def test_an_unexpected_error_logs_its_traceback_only(store: Store, monkeypatch):
    monkeypatch.setattr(Simulation, "summary", lambda self: 1 / 0)
    run = compute(store)
    assert run.status == "failed"
    assert run.error.startswith("unexpected error: ZeroDivisionError")
    assert "Traceback" not in run.error
    assert ["Traceback" in event.message for event in store.events.list(run.id)] == [True]


def test_a_gpu_out_of_memory_fails_with_advice(store: Store, monkeypatch):
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Simulation, "rounds", full)
    assert "FEDSCAPE_RUNS_PER_GPU=1" in compute(store).error


def test_a_cancelled_run_keeps_its_rounds(store: Store, monkeypatch):
    request_after_round(monkeypatch, 2, "cancel")
    run = compute(store)
    assert (run.status, run.round) == ("cancelled", 2)
    assert run.summary["best"]["personalized"]["round"] <= 2
    assert kinds(store, run.id) == []


@pytest.mark.parametrize(("control", "status"), [("cancel", "cancelled"), ("pause", "paused")])
def test_a_run_can_be_stopped_during_set_up(store: Store, monkeypatch, control, status):
    def setting_up(*_: object, **__: object) -> None:
        store.queue.request([run.id for run in store.queue.runs()], control)
        raise Stop(control)

    monkeypatch.setattr(session, "Simulation", setting_up)
    assert compute(store).status == status


@pytest.mark.slow
def test_a_paused_run_resumes_where_it_stopped(store: Store, monkeypatch):
    undisturbed = compute(store)
    with monkeypatch.context() as patch:
        request_after_round(patch, 3, "pause")
        paused = compute(store, checkpoint_s=1000)
    assert (paused.status, paused.round) == ("paused", 3)
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    assert store.queue.get(paused.id).status == "done"
    assert rows(store, paused.id) == rows(store, undisturbed.id)
    assert store.queue.get(paused.id).summary == undisturbed.summary


@pytest.mark.slow
def test_a_run_paused_while_evaluating_repeats_that_round(store: Store, monkeypatch):
    undisturbed = compute(store)

    def stop(simulation: Simulation) -> dict:
        if simulation.round == 3:
            store.queue.request([run.id for run in store.queue.runs(statuses=["running"])], "pause")
            raise Stop("pause")
        return evaluate(simulation)

    evaluate = Simulation._evaluate
    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "_evaluate", stop)
        paused = compute(store, checkpoint_s=1000)
    assert (paused.status, paused.round) == ("paused", 2)
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    assert rows(store, paused.id) == rows(store, undisturbed.id)


@pytest.mark.slow
def test_an_outage_while_the_parts_of_a_checkpoint_are_listed_is_waited_for(store: Store, monkeypatch):
    undisturbed = compute(store)
    monkeypatch.setattr(client_rows, "DENSE_BYTES", 0)  # state by client is in parts
    with monkeypatch.context() as patch:
        request_after_round(patch, 3, "pause")
        paused = compute(store)
    assert len(store.artifacts.list(paused.id, CHECKPOINT_ROWS)) > 1
    store.queue.resume([paused.id])
    listing, listed = store.artifacts.list, []

    def failing_once(run_id: int, kind: str | None = None) -> list:
        if kind == CHECKPOINT_ROWS:
            listed.append(run_id)
            if len(listed) == 1:
                raise DatabaseUnavailable("the server does not answer")
        return listing(run_id, kind)

    with monkeypatch.context() as patch:
        patch.setattr(store.artifacts, "list", failing_once)
        patch.setattr(retry.time, "sleep", lambda seconds: None)
        patch.setattr(Session, "_checkpoint", lambda *_: None)  # which lists them as well
        work_on(store, claim(store))
    assert len(listed) == 1 + 1 + 1, "once more after the outage, and to delete them at the end"
    assert store.queue.get(paused.id).status == "done" and rows(store, paused.id) == rows(store, undisturbed.id)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_skipped(store: Store, monkeypatch):
    undisturbed = compute(store)
    with monkeypatch.context() as patch:
        request_after_round(patch, 3, "pause")
        paused = compute(store)
    for record in store.artifacts.list(paused.id, "checkpoint"):
        (store.artifacts.folder / record.path).write_bytes(b"rubbish")
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    assert rows(store, paused.id) == rows(store, undisturbed.id)
    assert {event.kind for event in store.events.list(paused.id)} == {"checkpoint"}


def test_a_worker_that_lost_its_claim_writes_nothing(store: Store):
    queue(store)
    old = claim(store)
    store.queue.requeue_running()
    store.queue.claim()
    work_on(store, old)
    assert store.queue.get(old.run_id).status == "running"
    assert stored_rounds(store, old.run_id).tolist() == []


def test_warnings_during_a_run_are_in_its_provenance(store: Store, monkeypatch):
    def summary(simulation: Simulation) -> dict:
        simulation.task.note("the clients went home")
        return {"personalized": {"mean": math.nan}}

    monkeypatch.setattr(Simulation, "summary", summary)
    assert "the clients went home" in compute(store).provenance["warnings"]
