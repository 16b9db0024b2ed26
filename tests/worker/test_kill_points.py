"""A worker that dies anywhere loses nothing: a run taken up again ends with the rows of one left in peace."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import storage.metrics
from engine.simulation.simulate import Simulation
from engine.worker import session
from engine.worker.process import work_on
from storage import Store
from storage.artifacts import ArtifactStore
from storage.metrics import Metrics
from storage.run_queue import RunQueue
from tests.worker.samples import Peace, claim, kinds, queue, rows


class Killed(BaseException):
    """Nothing in the product catches it, as nothing catches kill -9."""


def instead(*_: Any, **__: Any) -> None:
    raise Killed


def the_third_time(original: Callable, before: bool) -> Callable:
    """Dies in the third call, before it or after it."""
    calls = []

    def dying(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if before and len(calls) == 3:
            raise Killed
        answer = original(*args, **kwargs)
        if len(calls) == 3:
            raise Killed
        return answer

    return dying


KILL_POINTS: dict[str, tuple[Any, str, Callable]] = {
    "after the claim": (session, "Simulation", instead),
    "in a round": (Simulation, "_record_round", the_third_time(Simulation._record_round, before=True)),
    "in an evaluation": (Simulation, "_evaluate", the_third_time(Simulation._evaluate, before=True)),
    "checkpoint written under another name": (os, "replace", the_third_time(os.replace, before=True)),
    "checkpoint renamed, not registered": (
        ArtifactStore,
        "write_file",
        the_third_time(ArtifactStore.write_file, before=False),
    ),
    "in the transaction": (
        storage.metrics,
        "insert_artifact",
        the_third_time(storage.metrics.insert_artifact, before=False),
    ),
    "after the commit": (Metrics, "append", the_third_time(Metrics.append, before=False)),
    "before old checkpoints are deleted": (ArtifactStore, "remove_files", instead),
    "models registered, status not set": (RunQueue, "finish", instead),
    "status set": (RunQueue, "finish", lambda *args, **kwargs: (finish(*args, **kwargs), instead())),
}
finish = RunQueue.finish


@pytest.mark.parametrize("point", KILL_POINTS)
@pytest.mark.parametrize("checkpoint_s", [1e-6, 1000], ids=["checkpoints", "no checkpoint"])
def test_a_run_killed_and_taken_up_again_equals_one_left_in_peace(
    store: Store, in_peace: Callable[..., Peace], monkeypatch, point, checkpoint_s
):
    whole = in_peace()
    queue(store, checkpoint_s=checkpoint_s)
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
    assert (again.status, again.round, again.summary) == ("done", whole.run.round, whole.run.summary)
    assert rows(store, killed.run_id) == whole.rows
    assert [k for k in kinds(store, killed.run_id) if k != "checkpoint"] == whole.kinds
    assert store.artifacts.sweep() == 0
