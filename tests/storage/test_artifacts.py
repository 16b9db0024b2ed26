"""Only complete files are registered."""

from pathlib import Path

import pytest

from storage import ArtifactDamaged, ArtifactRecord, Fenced, RunRecord, StorageError, Store


def put(store: Store, run_id: int, kind: str, round: int, data: bytes = b"state") -> ArtifactRecord:
    return store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, kind, round, data))


def files(store: Store) -> list[Path]:
    return [path for path in store.artifacts.folder.glob("*/*") if path.is_file()]


def test_an_artifact_is_read_as_written(store: Store, run: RunRecord) -> None:
    file = store.artifacts.write_file(run.id, "model-best", 3, b"\0weights")
    record = store.artifacts.register(run.id, run.epoch, file)
    assert (record.kind, record.round, record.size_bytes) == ("model-best", 3, 8)
    assert store.artifacts.read(record) == b"\0weights"
    assert store.artifacts.get(record.id) == record
    assert store.artifacts.get(record.id + 1) is None


def test_a_file_counts_once_it_is_registered(store: Store, run: RunRecord) -> None:
    store.artifacts.write_file(run.id, "checkpoint", 3, b"newer")
    assert store.artifacts.latest(run.id, "checkpoint") is None


def test_the_latest_artifact_of_a_kind_has_the_highest_round(store: Store, run: RunRecord) -> None:
    for kind, round in (("checkpoint", 2), ("checkpoint", 9), ("checkpoint", 5), ("model-last", 99)):
        put(store, run.id, kind, round)
    latest = store.artifacts.latest(run.id, "checkpoint")
    assert latest is not None
    assert latest.round == 9
    assert [a.round for a in store.artifacts.list(run.id)] == [99, 9, 5, 2]


def test_only_the_last_artifacts_are_kept(store: Store, run: RunRecord) -> None:
    for round in range(5):
        put(store, run.id, "checkpoint", round)
    put(store, run.id, "model-last", 0)
    store.artifacts.keep_last(run.id, "checkpoint", n=2)
    assert [a.round for a in store.artifacts.list(run.id, "checkpoint")] == [4, 3]
    assert len(files(store)) == 3


def test_a_former_owner_deletes_nothing(store: Store, run: RunRecord) -> None:
    store.queue.requeue(run.id, run.epoch)
    store.queue.claim()
    kept = put(store, run.id, "checkpoint", 0)
    with pytest.raises(Fenced):
        store.artifacts.keep_last(run.id, "checkpoint", 0, run.epoch)
    with pytest.raises(Fenced):
        store.artifacts.delete([kept.id], (run.id, run.epoch))
    assert store.artifacts.read(kept) == b"state"
    store.artifacts.keep_last(run.id, "checkpoint", 0, run.epoch + 1)
    assert files(store) == []


def test_only_finished_runs_drop_a_kind(store: Store, run: RunRecord) -> None:
    put(store, run.id, "checkpoint", 0)
    put(store, run.id, "model-last", 0)
    assert store.artifacts.drop_of_finished("checkpoint") == 0
    store.queue.finish(run.id, run.epoch, "done")
    assert store.artifacts.drop_of_finished("checkpoint") == 1
    assert [a.kind for a in store.artifacts.list(run.id)] == ["model-last"]
    assert len(files(store)) == 1


def test_damage_is_detected(store: Store, run: RunRecord) -> None:
    record = put(store, run.id, "checkpoint", 0)
    (store.artifacts.folder / record.path).write_bytes(b"other")
    with pytest.raises(ArtifactDamaged, match="SHA-256"):
        store.artifacts.read(record)
    (store.artifacts.folder / record.path).unlink()
    with pytest.raises(ArtifactDamaged, match="cannot be read"):
        store.artifacts.read(record)


def test_sweeping_removes_unregistered_files(store: Store, run: RunRecord) -> None:
    store.artifacts.mark_folder()
    gone = run.id + 1
    artifact = put(store, run.id, "checkpoint", 0)
    store.artifacts.write_file(run.id, "checkpoint", 1, b"renamed, not registered")
    (store.artifacts.folder / str(run.id) / "checkpoint-000002-0123456789ab.tmp").write_bytes(b"not renamed")
    store.artifacts.write_file(gone, "checkpoint", 1, b"run is gone")
    assert store.artifacts.sweep() == 3
    assert files(store) == [store.artifacts.folder / artifact.path]
    assert not (store.artifacts.folder / str(gone)).exists()
    assert store.artifacts.sweep() == 0


def test_sweeping_leaves_foreign_files(store: Store) -> None:
    foreign = [store.artifacts.folder / name for name in ("7/notes.txt", "mine/checkpoint-000001-0123456789ab.bin")]
    for path in foreign:
        path.parent.mkdir(parents=True)
        path.write_text("somebody else's")
    (store.artifacts.folder / "8" / "checkpoint-000001-0123456789ab.bin").mkdir(parents=True)
    assert store.artifacts.sweep() == 0
    assert all(path.exists() for path in foreign)


def test_databases_with_the_same_stem_have_separate_artifacts(tmp_path: Path) -> None:
    folders = {Store(f"sqlite:///{tmp_path / name}").artifacts.folder for name in ("a.db", "a.sqlite")}
    assert len(folders) == 2


def test_sweeping_without_a_folder_does_nothing(store: Store) -> None:
    assert store.artifacts.sweep() == 0


def test_an_unwritable_folder_is_reported(store: Store) -> None:
    store.artifacts.folder.write_text("a file is in the way")
    with pytest.raises(StorageError, match="cannot write"):
        store.artifacts.write_file(1, "checkpoint", 0, b"x")
