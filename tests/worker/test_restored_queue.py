"""Runs of a backup that was taken while they computed resume with the same results."""

from pathlib import Path
from typing import Any

import pytest

from engine.simulation.simulate import Simulation
from engine.worker.process import work_on
from storage import Store
from tests.worker.samples import claim, compute, kinds, queue, rows


@pytest.mark.slow
def test_a_restored_run_resumes_from_its_checkpoint(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = compute(store)
    restored, later = queue(store)[0], queue(store, seeds=[7])[0]
    recorded, calls = Simulation._record_round, []

    def backed_up(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:  # of seven: the start and six rounds
            Store(store.url).back_up(tmp_path / "b.zip", "1")
        return recorded(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "_record_round", backed_up)
        work_on(store, claim(store))

    other = Store(f"sqlite:///{tmp_path / 'elsewhere' / 'other.db'}")
    other.restore(tmp_path / "b.zip")
    assert other.queue.requeue_running() == [restored] and other.queue.get(later).status == "queued"
    checkpoint = other.artifacts.latest(restored, "checkpoint")
    assert checkpoint is not None and checkpoint.round == 3
    work_on(other, claim(other))
    assert other.queue.get(restored).status == "done"
    assert rows(other, restored) == rows(store, undisturbed.id) == rows(other, undisturbed.id)
    assert kinds(other, restored) == kinds(store, undisturbed.id) == kinds(other, undisturbed.id)
