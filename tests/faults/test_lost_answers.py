"""Writes that were committed but never acknowledged, as when a server crashes: retried, and stored once."""

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


def unacknowledged(write: Callable) -> Callable:
    """Every other call succeeds without an acknowledgement."""
    calls = []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        answer = write(*args, **kwargs)
        if len(calls) % 2:
            raise DatabaseUnavailable("the server does not answer")
        return answer

    return call


@pytest.mark.parametrize("checkpoint_s", [1e-6, 1000], ids=["checkpoints", "no checkpoint"])
@pytest.mark.slow
def test_rounds_checkpoints_and_models_are_stored_once(store: Store, monkeypatch, while_waiting, checkpoint_s):
    undisturbed = compute(store)
    queue(store, checkpoint_s=checkpoint_s)
    ticket = claim(store)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    monkeypatch.setattr(Metrics, "append", unacknowledged(Metrics.append))
    while_waiting(lambda: None)
    work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", undisturbed.summary)
    assert rows(store, run.id) == rows(store, undisturbed.id)
    assert kinds(store, run.id) == kinds(store, undisturbed.id)
    assert store.artifacts.sweep() == 0


def test_an_end_that_is_already_stored_is_not_changed(store: Store, monkeypatch, while_waiting):
    queue(store)
    ticket = claim(store)
    monkeypatch.setattr(RunQueue, "finish", unacknowledged(RunQueue.finish))
    while_waiting(lambda: None)
    work_on(store, ticket)
    assert store.queue.get(ticket.run_id).status == "done"


def test_a_run_claimed_by_another_worker_meanwhile_is_left_to_it(store: Store, monkeypatch):
    queue(store)
    ticket = claim(store)
    recorder = Recorder(store, ticket.run_id, ticket.epoch)
    recorder.add(RoundResult(0, np.array([1], np.int32), {}, {}), {})
    with monkeypatch.context() as patch:
        patch.setattr(store.metrics, "append", unacknowledged(store.metrics.append))
        with pytest.raises(DatabaseUnavailable):
            recorder.append()
    store.queue.requeue_running()
    store.queue.claim()
    with pytest.raises(Exception, match="no longer running under claim 1"):
        recorder.append()


def test_findings_of_a_finished_analysis_stay(store: Store, monkeypatch, while_waiting):
    run = compute(store)
    request = store.analyses.request(run.id, "confusion", {"which": "last"})
    monkeypatch.setattr(Analyses, "finish", unacknowledged(Analyses.finish))
    while_waiting(lambda: None)
    work_on(store, claim_analysis(store))
    done = store.analyses.get(request.id)
    assert done.status == "done"
    assert store.artifacts.read(store.artifacts.get(done.artifact_id))
