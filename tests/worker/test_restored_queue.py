"""A backup taken while runs are computed brings back a queue that goes on, to the same numbers."""

from pathlib import Path
from typing import Any

import pytest

from engine.simulation.simulate import Simulation
from engine.worker.process import work_on
from storage import Store
from tests.worker.samples import claim, compute, kinds, queue, rows


def test_a_restored_run_goes_on_from_its_checkpoint(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compute(store)
    ours, later = queue(store)[0], queue(store, seeds=[7])[0]
    recorded, calls = Simulation._record_round, []

    def backed_up(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:  # of its seven: the start and six rounds
            Store(store.url).back_up(tmp_path / "b.zip", "1")
        return recorded(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "_record_round", backed_up)
        work_on(store, claim(store))

    other = Store(f"sqlite:///{tmp_path / 'elsewhere' / 'other.db'}")
    other.restore(tmp_path / "b.zip")
    assert other.queue.requeue_running() == [ours] and other.queue.get(later).status == "queued"
    checkpoint = other.artifacts.latest(ours, "checkpoint")
    assert checkpoint is not None and checkpoint.round == 3
    work_on(other, claim(other))
    assert other.queue.get(ours).status == "done"
    assert rows(other, ours) == rows(store, whole.id) == rows(other, whole.id)
    assert kinds(other, ours) == kinds(store, whole.id) == kinds(other, whole.id)
