"""Damaged, incompatible or missing checkpoints: the run resumes from what is left, with the same results."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch

from engine.core.safetensors_header import metadata
from engine.simulation import checkpoint_codec as states
from engine.simulation.simulate import Simulation
from engine.worker.process import work_on
from storage import ArtifactRecord, NewArtifact, RunRecord, Store
from tests.worker.samples import claim, claim_analysis, compute, kinds, rows
from tests.worker.test_session import request_after_round

Damage = Callable[[Store, list[ArtifactRecord]], None]


def path(store: Store, record: ArtifactRecord) -> Path:
    return store.artifacts.folder / record.path


def truncate(store: Store, records: list[ArtifactRecord]) -> None:
    for record in records:
        data = path(store, record).read_bytes()
        path(store, record).write_bytes(data[: len(data) // 2])


def remove(store: Store, records: list[ArtifactRecord]) -> None:
    for record in records:
        path(store, record).unlink()


def replace(store: Store, record: ArtifactRecord, data: bytes) -> None:
    """Replaces the file by a complete and registered one with other data."""
    store.artifacts.delete([record.id])
    file: NewArtifact = store.artifacts.write_file(record.run_id, record.kind, record.round, data)
    store.artifacts.register(record.run_id, None, file)


def truncate_before_registering(store: Store, records: list[ArtifactRecord]) -> None:
    for record in records:
        replace(store, record, store.artifacts.read(record)[:-7])


def rewrite(store: Store, records: list[ArtifactRecord], change: Callable[[dict], object]) -> None:
    """Changes the description of the content."""
    for record in records:
        data = store.artifacts.read(record)
        tree = json.loads(metadata(data)["tree"])
        change(tree["dict"])
        described = {"tree": json.dumps(tree), "parts": "[]"}
        replace(store, record, safetensors.torch.save(safetensors.torch.load(data), metadata=described))


def unknown_part(store: Store, records: list[ArtifactRecord]) -> None:
    """As written by another version: with a part that this version does not know."""

    def add(parts: dict) -> None:
        parts["best"]["dict"]["personalized"]["dict"]["since"] = {"value": 3}

    rewrite(store, records, add)


def missing_part(store: Store, records: list[ArtifactRecord]) -> None:
    """As written by an older version: without a part that this version stores."""
    rewrite(store, records, lambda parts: parts.pop("notes"))


def foreign_content(store: Store, records: list[ArtifactRecord]) -> None:
    for record in records:
        replace(store, record, states.to_bytes({"hello": [1, 2]}))


DAMAGE: list[Damage] = [
    truncate,
    remove,
    truncate_before_registering,
    unknown_part,
    missing_part,
    foreign_content,
]


@pytest.fixture
def paused(store: Store, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    """A run paused in round 3 of 6, with checkpoints of rounds 2 and 3."""
    with monkeypatch.context() as patch:
        request_after_round(patch, 3, "pause")
        run = compute(store)
    assert [record.round for record in store.artifacts.list(run.id, "checkpoint")] == [3, 2]
    return run


@pytest.fixture
def resumed_after(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds after which the run was resumed."""
    rounds: list[int] = []
    begin = Simulation.rounds

    def note(simulation: Simulation):
        rounds.append(simulation.round)
        return begin(simulation)

    monkeypatch.setattr(Simulation, "rounds", note)
    return rounds


@pytest.mark.parametrize(("damage", "how_many", "resumes_after"), [*((d, 1, 2) for d in DAMAGE), (truncate, 2, -1)])
@pytest.mark.slow
def test_a_run_resumes_from_the_last_usable_checkpoint(
    store: Store, paused, resumed_after, damage, how_many, resumes_after
):
    damage(store, store.artifacts.list(paused.id, "checkpoint")[:how_many])
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    assert resumed_after == [resumes_after]
    undisturbed = compute(store)
    assert store.queue.get(paused.id).status == "done"
    assert rows(store, paused.id) == rows(store, undisturbed.id)
    assert store.queue.get(paused.id).summary == undisturbed.summary
    events = store.events.list(paused.id)
    assert [event.kind for event in events] == ["checkpoint"] * how_many
    assert "round 3 is skipped" in events[0].message


@pytest.mark.slow
def test_a_missing_artifacts_folder_only_costs_time(store: Store, paused, resumed_after):
    shutil.rmtree(store.artifacts.folder)
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    undisturbed = compute(store)
    assert resumed_after[0] == -1
    assert rows(store, paused.id) == rows(store, undisturbed.id)
    assert kinds(store, paused.id) == kinds(store, undisturbed.id)


def test_an_analysis_of_missing_models_fails_with_advice(store: Store):
    run = compute(store)
    shutil.rmtree(store.artifacts.folder)
    request = store.analyses.request(run.id, "confusion", {"which": "last"})
    work_on(store, claim_analysis(store))
    failed = store.analyses.get(request.id)
    assert failed.status == "failed"
    assert "cannot be read" in failed.error and "rerun the run" in failed.error
