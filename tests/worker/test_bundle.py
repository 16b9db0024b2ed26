"""A bundle transfers runs with everything stored to another database, without duplicates."""

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.cli.export_runs import write_runs
from engine.core.errors import InvalidConfig
from engine.core.findings import Findings
from engine.exchange.import_runs import import_file
from engine.exchange.records import load_result
from engine.export.document import run_document
from storage import BUNDLE, Archive, RunRecord, Store, new_archive
from tests.worker.samples import compute, rows

FOUND = Findings(
    {"axis": np.arange(3.0)} | dict.fromkeys(("personalized_own", "personalized_everyone"), np.ones((3, 3))),
    {"round": 2, "data": "test", "samples": {"own": 65, "everyone": 260}},
)


@pytest.fixture(scope="module")
def computed(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database that contains a computed run with an analysis and a log entry."""
    folder = tmp_path_factory.mktemp("computed")
    shutil.copy(empty_database, folder / "fedscape.db")
    store = Store(f"sqlite:///{folder / 'fedscape.db'}")
    run = compute(store, training__rounds=2, partition__val_fraction=0.2)
    store.analyses.request(run.id, "landscape", {"which": "last", "size": 5})
    analysis = store.analyses.claim()
    assert analysis is not None
    file = store.artifacts.write_file(run.id, "analysis-landscape", 2, FOUND.to_bytes())
    store.analyses.finish(analysis.id, analysis.epoch, "done", result=file)
    store.events.add(run.id, "warning", "models", "a line with „quotes“ and\ntwo lines")
    store.events.add(None, "info", "engine", "of no run")
    store.close()
    return folder


@pytest.fixture
def store(computed: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copytree(computed, tmp_path, dirs_exist_ok=True)
    store = Store(f"sqlite:///{tmp_path / 'fedscape.db'}")
    yield store
    store.close()


@pytest.fixture
def run(store: Store) -> RunRecord:
    return store.queue.get(1)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'other.db'}")
    store.ensure_schema()
    yield store
    store.close()


@pytest.fixture
def bundle(store: Store, run: RunRecord, tmp_path: Path) -> Path:
    write_runs(store, tmp_path / "runs.zip", [run], "bundle")
    return tmp_path / "runs.zip"


def import_run(other: Store, path: Path) -> RunRecord:
    (experiment,) = import_file(other, path).experiments
    (run,) = other.queue.runs(experiment_ids=[experiment.id])
    return run


def files(store: Store, run: RunRecord) -> list[tuple[str, int, bytes]]:
    return [(a.kind, a.round, store.artifacts.read(a)) for a in store.artifacts.list(run.id)]


def test_everything_of_a_run_is_imported(store: Store, run: RunRecord, other: Store, bundle: Path) -> None:
    new = import_run(other, bundle)
    assert [row[:3] + row[4:5] for row in rows(other, new.id)] == [row[:3] + row[4:5] for row in rows(store, run.id)]
    assert run_document(load_result(other, new)) | {"provenance": None} == run_document(load_result(store, run)) | {
        "provenance": None
    }
    assert new.provenance == (run.provenance or {}) | {"imported": True}
    assert (new.partition, new.summary, new.config, new.digest) == (run.partition, run.summary, run.config, run.digest)
    assert sorted(files(other, new)) == sorted(files(store, run)) and len(files(other, new)) == 3
    events = [
        [(e.at, e.level, e.kind, e.message) for e in s.events.list(r.id)] for s, r in ((store, run), (other, new))
    ]
    assert events[0] == events[1] and len(events[0]) == 1


def test_a_finished_analysis_is_not_computed_again_after_import(other: Store, bundle: Path) -> None:
    new = import_run(other, bundle)
    there = other.analyses.request(new.id, "landscape", {"which": "last", "size": 5})
    assert there.status == "done" and there.artifact_id is not None
    artifact = other.artifacts.get(there.artifact_id)
    assert artifact is not None and Findings.from_bytes(other.artifacts.read(artifact)).values == FOUND.values


def test_other_programs_can_read_the_models(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as file:
        names = set(file.namelist())
        assert names == {
            "manifest.json",
            "runs.json",
            "beside.json",
            "0000/model-last.safetensors",
            "0000/model-best.safetensors",
            "0000/analysis-landscape-1.safetensors",
        }
        assert json.loads(file.read("runs.json"))["runs"][0]["algorithm"] == "ditto"
        size = int.from_bytes(file.read("0000/model-last.safetensors")[:8], "little")
        assert b'"personalized/' in file.read("0000/model-last.safetensors")[8 : 8 + size]


def test_a_run_that_was_already_imported_is_skipped(other: Store, bundle: Path) -> None:
    first = import_run(other, bundle)
    again = import_file(other, bundle)
    assert again.experiments == () and [(k.label, k.seeds, k.run_id) for k in again.known] == [
        ("ditto", "seed 0", first.id)
    ]
    assert len(other.queue.runs()) == 1


def test_a_run_imported_as_a_document_and_as_a_bundle_is_stored_once(
    store: Store, run: RunRecord, other: Store, bundle: Path, tmp_path: Path
) -> None:
    write_runs(store, tmp_path / "runs.json", [run], "json")
    new = import_run(other, tmp_path / "runs.json")
    imported = import_file(other, bundle)
    assert imported.experiments == () and [k.added for k in imported.known] == [3]
    assert sorted(files(other, new)) == sorted(files(store, run))


def test_a_bundle_restores_dropped_models(other: Store, bundle: Path) -> None:
    new = import_run(other, bundle)
    before = files(other, new)
    other.artifacts.drop_models([new.id])
    assert [k.added for k in import_file(other, bundle).known] == [2]
    assert sorted(files(other, new)) == sorted(before)
    assert [k.added for k in import_file(other, bundle).known] == [0]


def test_a_bundle_of_a_run_with_the_same_models_twice_has_them_once(
    store: Store, run: RunRecord, other: Store, tmp_path: Path
) -> None:
    (last,) = store.artifacts.list(run.id, "model-last")
    again = store.artifacts.write_file(run.id, "model-last", last.round, store.artifacts.read(last))
    store.artifacts.register(run.id, None, again)
    write_runs(store, tmp_path / "twice.zip", [run], "bundle")
    found = files(other, import_run(other, tmp_path / "twice.zip"))
    assert [kind for kind, *_ in found].count("model-last") == 1


def test_a_rerun_is_a_different_run(store: Store, run: RunRecord, other: Store, bundle: Path) -> None:
    import_run(other, bundle)
    again = compute(store, training__rounds=2, partition__val_fraction=0.2)
    assert again.digest == run.digest
    write_runs(store, bundle.with_name("again.zip"), [again], "bundle")
    import_run(other, bundle.with_name("again.zip"))
    assert len(other.queue.runs()) == 2


def test_each_of_several_runs_keeps_its_own_files(store: Store, run: RunRecord, other: Store, tmp_path: Path) -> None:
    second = compute(store, training__rounds=1)
    write_runs(store, tmp_path / "two.zip", [second, run], "bundle")
    events: list[tuple[int, int]] = []
    imported = import_file(other, tmp_path / "two.zip", lambda number, of: events.append((number, of)))
    new = {r.rounds: r for e in imported.experiments for r in other.queue.runs(experiment_ids=[e.id])}
    assert sorted(files(other, new[1])) == sorted(files(store, second))
    assert sorted(files(other, new[2])) == sorted(files(store, run))
    assert events == [(1, 2), (2, 2)]


def rewritten(path: Path, damage: Any) -> Path:
    """A copy with a changed ``beside.json`` and a matching manifest."""
    copy = path.with_name("damaged.zip")
    with Archive(path, BUNDLE) as old, new_archive(copy, BUNDLE) as new:
        for name in old.members:
            data = old.read(name)
            if name == "beside.json":
                beside = json.loads(data)
                damage(beside)
                data = json.dumps(beside).encode()
            new.add(name, data)
    return copy


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[0]["models"][0].update(kind="../../escaped"), "0.models.0.kind"),
        (lambda b: b[0]["analyses"][0].update(kind="../x"), "0.analyses.0.kind"),
        (
            lambda b: b[0]["models"][0].update(member="0000/a.safetensors"),
            "names '0000/a.safetensors', which is missing",
        ),
        (lambda b: b[0]["events"][0].update(level="loud"), "0.events.0.level"),
        (lambda b: b[0]["events"][0].update(at="yesterday"), "0.events.0.at"),
        (lambda b: b[0]["events"][0].update(at="0001-01-01T00:00:00+14:00"), "0.events.0.at"),
        (lambda b: b[0]["events"][0].update(message="a\0b"), "beside.json: a text has a null character"),
        (lambda b: b.append(b[0]), "has 2 entries, but must have one per run"),
    ],
)
def test_a_tampered_bundle_is_refused(other: Store, bundle: Path, damage: Any, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        import_file(other, rewritten(bundle, damage))
    assert other.experiments.list(include_archived=True) == []


def test_a_damaged_file_inside_a_bundle_leaves_nothing_behind(store: Store, other: Store, bundle: Path) -> None:
    data = bundle.read_bytes()
    with zipfile.ZipFile(bundle) as file:
        at = file.getinfo("0000/model-best.safetensors").header_offset + 200
    bundle.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(InvalidConfig, match="model-best"):
        import_file(other, bundle)
    assert other.experiments.list(include_archived=True) == []
    assert not list(other.artifacts.folder.glob("*/*"))


def test_a_backup_is_refused_as_a_bundle(store: Store, other: Store, run: RunRecord, tmp_path: Path) -> None:
    store.back_up(tmp_path / "b.zip", "1")
    with pytest.raises(InvalidConfig, match="is a Fedscape backup: use `python -m engine restore` for it"):
        import_file(other, tmp_path / "b.zip")


def test_unreadable_models_are_reported(
    store: Store, run: RunRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = store.artifacts.latest(run.id, "model-best")
    assert record is not None
    (store.artifacts.folder / record.path).unlink()
    write_runs(store, tmp_path / "runs.zip", [run], "bundle")
    assert "the model-best of run 1" in capsys.readouterr().err
