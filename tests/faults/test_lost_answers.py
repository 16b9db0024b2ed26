"""A write that took place although its answer was lost, as with a server that goes away: asked again, stored once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.core.results import RoundResult
from engine.worker import recorder as recording
from engine.worker.process import work_on
from engine.worker.recorder import Recorder
from storage import DatabaseUnavailable, Store
from storage.analyses import Analyses
from storage.metrics import Metrics
from storage.run_queue import RunQueue
from tests.worker.samples import claim, claim_analysis, compute, kinds, queue, rows


def unanswered(write: Callable) -> Callable:
    """Every other time it is done, and nobody hears of it."""
    calls = []

    def done_in_silence(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        answer = write(*args, **kwargs)
        if len(calls) % 2:
            raise DatabaseUnavailable("the server does not answer")
        return answer

    return done_in_silence


@pytest.mark.parametrize("checkpoint_s", [1e-6, 1000], ids=["checkpoints", "no checkpoint"])
def test_rounds_checkpoints_and_models_are_there_once(store: Store, monkeypatch, while_waiting, checkpoint_s):
    whole = compute(store)
    queue(store, checkpoint_s=checkpoint_s)
    ticket = claim(store)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    monkeypatch.setattr(Metrics, "append", unanswered(Metrics.append))
    while_waiting(lambda: None)
    work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", whole.summary)
    assert rows(store, run.id) == rows(store, whole.id)
    assert kinds(store, run.id) == kinds(store, whole.id)
    assert store.artifacts.sweep() == 0


def test_an_end_that_is_there_already_is_left_alone(store: Store, monkeypatch, while_waiting):
    queue(store)
    ticket = claim(store)
    monkeypatch.setattr(RunQueue, "finish", unanswered(RunQueue.finish))
    while_waiting(lambda: None)
    work_on(store, ticket)
    assert store.queue.get(ticket.run_id).status == "done"


def test_a_run_that_others_took_meanwhile_is_left_to_them(store: Store, monkeypatch):
    queue(store)
    ticket = claim(store)
    recorder = Recorder(store, ticket.run_id, ticket.epoch)
    recorder.add(RoundResult(0, np.array([1], np.int32), {}, {}), {})
    with monkeypatch.context() as patch:
        patch.setattr(store.metrics, "append", unanswered(store.metrics.append))
        with pytest.raises(DatabaseUnavailable):
            recorder.append()
    store.queue.requeue_running()
    store.queue.claim()
    with pytest.raises(Exception, match="no longer running under claim 1"):
        recorder.append()


def test_findings_of_an_analysis_that_is_done_stay(store: Store, monkeypatch, while_waiting):
    run = compute(store)
    asked = store.analyses.request(run.id, "confusion", {"which": "last"})
    monkeypatch.setattr(Analyses, "finish", unanswered(Analyses.finish))
    while_waiting(lambda: None)
    work_on(store, claim_analysis(store))
    done = store.analyses.get(asked.id)
    assert done.status == "done"
    assert store.artifacts.read(store.artifacts.get(done.artifact_id))
