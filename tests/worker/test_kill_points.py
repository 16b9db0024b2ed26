"""A worker that dies anywhere loses nothing: the resumed run equals an undisturbed run."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import storage.metrics
from engine.core import client_rows
from engine.simulation.simulate import Simulation
from engine.worker import session
from engine.worker.process import work_on
from engine.worker.recorder import CHECKPOINT_KINDS
from storage import Store
from storage.artifacts import ArtifactStore
from storage.metrics import Metrics
from storage.run_queue import RunQueue
from tests.worker.samples import Undisturbed, claim, kinds, queue, rows


class Killed(BaseException):
    """Like kill -9, nothing in the product catches it."""


def die(*_: Any, **__: Any) -> None:
    raise Killed


def at_third_call(original: Callable, before: bool) -> Callable:
    """Dies before or after the third call."""
    calls = []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if before and len(calls) == 3:
            raise Killed
        answer = original(*args, **kwargs)
        if len(calls) == 3:
            raise Killed
        return answer

    return call


KILL_POINTS: dict[str, tuple[Any, str, Callable]] = {
    "after the claim": (session, "Simulation", die),
    "in a round": (Simulation, "_record_round", at_third_call(Simulation._record_round, before=True)),
    "in an evaluation": (Simulation, "_evaluate", at_third_call(Simulation._evaluate, before=True)),
    "checkpoint written under another name": (os, "replace", at_third_call(os.replace, before=True)),
    "checkpoint renamed, not registered": (
        ArtifactStore,
        "write_file",
        at_third_call(ArtifactStore.write_file, before=False),
    ),
    "in the transaction": (
        storage.metrics,
        "insert_artifact",
        at_third_call(storage.metrics.insert_artifact, before=False),
    ),
    "after the commit": (Metrics, "append", at_third_call(Metrics.append, before=False)),
    "before old checkpoints are deleted": (ArtifactStore, "remove_files", die),
    "models registered, status not set": (RunQueue, "finish", die),
    "status set": (RunQueue, "finish", lambda *args, **kwargs: (finish(*args, **kwargs), die())),
}
finish = RunQueue.finish


@pytest.mark.parametrize("point", KILL_POINTS)
@pytest.mark.parametrize(
    ("checkpoint_s", "dense_bytes"), [(1e-6, 10**6), (1e-6, 0), (1000, 10**6)], ids=["checkpoints", "parts", "none"]
)
@pytest.mark.slow
def test_a_killed_and_resumed_run_equals_an_undisturbed_one(
    store: Store, undisturbed_run: Callable[..., Undisturbed], monkeypatch, point, checkpoint_s, dense_bytes
):
    undisturbed = undisturbed_run()
    monkeypatch.setattr(client_rows, "DENSE_BYTES", dense_bytes)
    monkeypatch.setenv("FEDSCAPE_STATE_MB", "0")
    queue(store, checkpoint_s=checkpoint_s)
    store.artifacts.sweep()  # as at every start
    killed = claim(store)
    with monkeypatch.context() as patch:
        patch.setattr(*KILL_POINTS[point])
        with suppress(Killed):
            work_on(store, killed)
    store.queue.requeue_running()
    store.artifacts.sweep()
    if store.queue.get(killed.run_id).status == "queued":
        work_on(store, claim(store))

    again = store.queue.get(killed.run_id)
    assert (again.status, again.round, again.summary) == ("done", undisturbed.run.round, undisturbed.run.summary)
    assert rows(store, killed.run_id) == undisturbed.rows
    assert [k for k in kinds(store, killed.run_id) if k not in CHECKPOINT_KINDS] == undisturbed.kinds
    assert store.artifacts.sweep() == 0
