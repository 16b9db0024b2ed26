"""Checkpoints that are damaged, of another version or gone: the run takes what is left and ends with the same rows."""

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
    """By a whole file, registered as it should be, that says something else."""
    store.artifacts.delete([record.id])
    file: NewArtifact = store.artifacts.write_file(record.run_id, record.kind, record.round, data)
    store.artifacts.register(record.run_id, None, file)


def cut_before_registering(store: Store, records: list[ArtifactRecord]) -> None:
    for record in records:
        replace(store, record, store.artifacts.read(record)[:-7])


def rewrite(store: Store, records: list[ArtifactRecord], change: Callable[[dict], object]) -> None:
    """With another description of what is in it."""
    for record in records:
        data = store.artifacts.read(record)
        tree = json.loads(metadata(data)["tree"])
        change(tree["dict"])
        described = {"tree": json.dumps(tree)}
        replace(store, record, safetensors.torch.save(safetensors.torch.load(data), metadata=described))


def of_another_version(store: Store, records: list[ArtifactRecord]) -> None:
    """It has a part that nobody knows today."""

    def add(kept: dict) -> None:
        kept["best"]["dict"]["personalized"]["dict"]["since"] = {"value": 3}

    rewrite(store, records, add)


def of_an_older_version(store: Store, records: list[ArtifactRecord]) -> None:
    """It lacks what is kept today."""
    rewrite(store, records, lambda kept: kept.pop("notes"))


def of_nothing_of_ours(store: Store, records: list[ArtifactRecord]) -> None:
    for record in records:
        replace(store, record, states.to_bytes({"hello": [1, 2]}))


DAMAGE: list[Damage] = [
    truncate,
    remove,
    cut_before_registering,
    of_another_version,
    of_an_older_version,
    of_nothing_of_ours,
]


@pytest.fixture
def paused(store: Store, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    """In round 3 of 6, with the checkpoints of rounds 2 and 3."""
    with monkeypatch.context() as patch:
        request_after_round(patch, 3, "pause")
        run = compute(store)
    assert [record.round for record in store.artifacts.list(run.id, "checkpoint")] == [3, 2]
    return run


@pytest.fixture
def taken_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The round after which the run was taken up."""
    rounds: list[int] = []
    begin = Simulation.rounds

    def note(simulation: Simulation):
        rounds.append(simulation.round)
        return begin(simulation)

    monkeypatch.setattr(Simulation, "rounds", note)
    return rounds


@pytest.mark.parametrize(("damage", "how_many", "resumes_after"), [*((d, 1, 2) for d in DAMAGE), (truncate, 2, -1)])
def test_a_run_goes_on_from_what_is_left(store: Store, paused, taken_up, damage, how_many, resumes_after):
    damage(store, store.artifacts.list(paused.id, "checkpoint")[:how_many])
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    assert taken_up == [resumes_after]
    whole = compute(store)
    assert store.queue.get(paused.id).status == "done"
    assert rows(store, paused.id) == rows(store, whole.id)
    assert store.queue.get(paused.id).summary == whole.summary
    told = store.events.list(paused.id)
    assert [event.kind for event in told] == ["checkpoint"] * how_many
    assert "round 3 is skipped" in told[0].message


def test_a_folder_of_artifacts_that_is_gone_costs_time_only(store: Store, paused, taken_up):
    shutil.rmtree(store.artifacts.folder)
    store.queue.resume([paused.id])
    work_on(store, claim(store))
    whole = compute(store)
    assert taken_up[0] == -1
    assert rows(store, paused.id) == rows(store, whole.id)
    assert kinds(store, paused.id) == kinds(store, whole.id)


def test_an_analysis_of_models_that_are_gone_says_what_to_do(store: Store):
    run = compute(store)
    shutil.rmtree(store.artifacts.folder)
    asked = store.analyses.request(run.id, "confusion", {"which": "last"})
    work_on(store, claim_analysis(store))
    failed = store.analyses.get(asked.id)
    assert failed.status == "failed"
    assert "cannot be read" in failed.error and "rerun the run" in failed.error
