"""Experiments are created completely or not at all, listed newest first, and disappear with their last run."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from storage import (
    ArtifactNotWritten,
    ExperimentNotFound,
    FinishedAnalysis,
    FinishedEvent,
    FinishedFile,
    FinishedRun,
    NewArtifact,
    RunsActive,
    StorageError,
    Store,
)
from storage.models import Artifact
from tests.storage.samples import a_round, new_run


def test_an_experiment_is_created_with_its_runs_queued_in_order(store: Store) -> None:
    experiment = store.experiments.create("three seeds", {"name": "x"}, [new_run(seed) for seed in (7, 8, 9)])
    assert (experiment.num_runs, experiment.status_counts) == (3, {"queued": 3})
    runs = store.queue.runs(experiment_ids=[experiment.id], newest_first=False)
    assert [(r.position, r.seed, r.experiment_name) for r in runs] == [
        (0, 7, "three seeds"),
        (1, 8, "three seeds"),
        (2, 9, "three seeds"),
    ]


def test_a_run_that_cannot_be_stored_leaves_no_experiment(store: Store) -> None:
    with pytest.raises(StorageError):
        store.experiments.create("half", {}, [new_run(), new_run(label=None)])
    assert store.experiments.list() == []


def test_non_finite_numbers_become_null_in_a_configuration(store: Store) -> None:
    config = {"lr": np.float32(0.5), "K": np.int64(3), "bad": float("nan"), "list": (1, float("inf"))}
    assert store.experiments.create("x", config, []).config == {"lr": 0.5, "K": 3, "bad": None, "list": [1, None]}


def test_times_are_in_utc(store: Store) -> None:
    assert str(store.experiments.create("x", {}, []).created_at.tzinfo) == "UTC"


def test_experiments_are_listed_newest_first_and_counted(store: Store) -> None:
    store.experiments.create("old", {}, [new_run(0), new_run(1)])
    store.experiments.create("new", {}, [])
    store.queue.claim()
    listed = store.experiments.list()
    assert [e.name for e in listed] == ["new", "old"]
    assert listed[1].status_counts == {"running": 1, "queued": 1}
    assert listed[0].status_counts == {}


def test_archiving_hides_an_experiment_and_its_runs_reversibly(store: Store) -> None:
    experiment = store.experiments.create("x", {}, [new_run()])
    store.experiments.archive([experiment.id])
    assert store.experiments.list() == []
    assert store.queue.runs() == []
    assert store.experiments.list(include_archived=True)[0].archived
    store.experiments.archive([experiment.id], archived=False)
    assert len(store.queue.runs()) == 1


def test_runs_show_the_new_name_of_their_experiment(store: Store) -> None:
    experiment = store.experiments.create("x", {}, [new_run()])
    store.experiments.rename(experiment.id, "y")
    assert store.queue.runs()[0].experiment_name == "y"


def test_an_unknown_experiment_is_reported_by_id(store: Store) -> None:
    experiment = store.experiments.create("x", {}, [])
    for unknown in (experiment.id + 1, 2**31, 2**63):
        with pytest.raises(ExperimentNotFound, match=f"no experiment with id {unknown}"):
            store.experiments.get(unknown)
        with pytest.raises(ExperimentNotFound):
            store.experiments.rename(unknown, "y")


def test_deleting_an_experiment_deletes_its_runs_and_files(store: Store) -> None:
    experiment = store.experiments.create("x", {}, [new_run()])
    run = store.queue.runs()[0]
    file = store.artifacts.write_file(run.id, "model-last", 5, b"bytes")
    store.artifacts.register(run.id, None, file)
    store.experiments.delete([experiment.id])
    assert store.experiments.list() == []
    assert store.queue.runs() == []
    assert not (store.artifacts.folder / file.path).exists()


def test_an_experiment_with_a_running_run_is_not_deleted(store: Store) -> None:
    experiment = store.experiments.create("x", {}, [new_run(0), new_run(1)])
    store.queue.claim()
    with pytest.raises(RunsActive, match="cancel it"):
        store.experiments.delete([experiment.id])
    assert store.experiments.get(experiment.id).num_runs == 2


def test_an_imported_run_is_finished_and_never_claimed(store: Store) -> None:
    run = FinishedRun(
        new_run(),
        "done",
        [a_round(0), a_round(1)],
        provenance={"device": "cpu"},
        partition={"train_sizes": [3]},
        summary={"mean": 0.5},
    )
    store.experiments.import_finished("shipped", {}, [run], example=True)
    (stored,) = store.queue.runs()
    assert (stored.status, stored.round, stored.example, stored.is_finished) == ("done", 1, True, True)
    assert (stored.provenance, stored.partition, stored.summary) == (run.provenance, run.partition, run.summary)
    assert [r.round for r in store.metrics.rounds(stored.id)] == [0, 1]
    assert store.queue.claim() is None


def test_a_failed_import_is_rolled_back(store: Store) -> None:
    twice = FinishedRun(new_run(), "done", [a_round(0), a_round(0)])
    with pytest.raises(StorageError, match="already stored, or what it belongs to was deleted"):
        store.experiments.import_finished("broken", {}, [FinishedRun(new_run(), "done", [a_round(0)]), twice])
    assert store.experiments.list() == []
    assert store.queue.runs() == []


def test_an_imported_run_has_its_models_analyses_and_log(store: Store) -> None:
    at = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    run = FinishedRun(
        new_run(),
        "done",
        [a_round(0)],
        models=[FinishedFile("model-last", 0, lambda: b"models")],
        analyses=[FinishedAnalysis("landscape", {"size": 5}, FinishedFile("analysis-landscape", 0, lambda: b"found"))],
        events=[FinishedEvent(at, "warning", "models", "too large")],
    )
    store.experiments.import_finished("brought", {}, [run])
    (stored,) = store.queue.runs()
    assert {a.kind: store.artifacts.read(a) for a in store.artifacts.list(stored.id)} == {
        "model-last": b"models",
        "analysis-landscape": b"found",
    }
    analysis = store.analyses.request(stored.id, "landscape", {"size": 5})
    assert (analysis.status, analysis.progress) == ("done", 1.0) and store.analyses.claim() is None
    assert [(e.at, e.level, e.message) for e in store.events.list(stored.id)] == [(at, "warning", "too large")]


def test_an_import_with_an_unreadable_file_leaves_no_file(store: Store) -> None:
    def unreadable() -> bytes:
        raise StorageError("damaged")

    files = [FinishedFile("model-last", 0, lambda: b"models"), FinishedFile("model-best", 0, unreadable)]
    with pytest.raises(StorageError, match="damaged"):
        store.experiments.import_finished("broken", {}, [FinishedRun(new_run(), "done", [a_round(0)], models=files)])
    assert store.queue.runs() == [] and not list(store.artifacts.folder.glob("*/*"))


def test_an_import_whose_file_is_swept_before_it_is_registered_is_undone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file = store.artifacts.write_file

    def write_and_sweep(*file: Any) -> NewArtifact:
        written = write_file(*file)
        assert store.artifacts.sweep() == 1
        return written

    monkeypatch.setattr(store.artifacts, "write_file", write_and_sweep)
    models = FinishedFile("model-last", 0, lambda: b"models")
    with pytest.raises(ArtifactNotWritten, match="was deleted, since the engine just started; try again"):
        store.experiments.import_finished("x", {}, [FinishedRun(new_run(), "done", [a_round(0)], models=[models])])
    assert store.queue.runs() == []


def test_an_import_over_the_disk_limit_leaves_no_file(sqlite_store: Store) -> None:
    def limit(connection: sa.Connection) -> None:
        if connection.scalar(sa.select(sa.func.count()).select_from(Artifact)):
            raise StorageError("over the limit")

    limited = Store(sqlite_store.url, before_commit=limit)
    found = FinishedAnalysis("landscape", {"size": 5}, FinishedFile("analysis-landscape", 0, lambda: b"found"))
    for files in ({"models": [FinishedFile("model-last", 0, lambda: b"models")]}, {"analyses": [found]}):
        with pytest.raises(StorageError, match="over the limit"):
            limited.experiments.import_finished("large", {}, [FinishedRun(new_run(), "done", [a_round(0)], **files)])
    assert limited.queue.runs() == [] and not list(limited.artifacts.files.names())
    limited.close()


def test_a_file_that_another_import_added_meanwhile_is_not_added_twice(store: Store) -> None:
    found = FinishedAnalysis("landscape", {"size": 5}, FinishedFile("analysis-landscape", 0, lambda: b"found"))
    models = FinishedFile("model-last", 0, lambda: b"models")
    run = FinishedRun(new_run(), "done", [a_round(0)], models=[models], analyses=[found])
    store.experiments.import_finished("once", {}, [run])
    (stored,) = store.queue.runs()
    assert store.experiments.add_files(stored.id, run) == 0
    assert sorted(a.kind for a in store.artifacts.list(stored.id)) == ["analysis-landscape", "model-last"]
    assert len(store.analyses.list(stored.id)) == 1 and len(list(store.artifacts.files.names())) == 2
    store.artifacts.drop_models([stored.id])
    assert store.experiments.add_files(stored.id, run) == 1
