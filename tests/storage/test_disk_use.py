"""Disk use by kind, and freeing the space of models."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from storage import RunRecord, Store
from storage.disk_use import disk_use
from tests.storage.samples import new_run


def put(store: Store, run_id: int, kind: str, size: int) -> None:
    store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, kind, 0, bytes(size)))


@pytest.fixture
def done(store: Store, run: RunRecord) -> RunRecord:
    """A run with 3 bytes of checkpoints, 5 + 7 of models and 11 of an analysis."""
    for kind, size in {"checkpoint": 3, "model-last": 5, "model-best": 7, "analysis-landscape": 11}.items():
        put(store, run.id, kind, size)
    store.queue.finish(run.id, run.epoch, "done")
    return store.queue.get(run.id)


def sizes(store: Store) -> tuple[int, int, int, int]:
    use = store.disk_use()
    return use.checkpoints_bytes, use.models_bytes, use.analyses_bytes, use.trash_bytes


def test_sizes_are_summed_by_kind(store: Store, done: RunRecord) -> None:
    assert sizes(store) == (3, 12, 11, 0)


def test_files_of_a_deleted_run_count_as_trash_only(store: Store, done: RunRecord) -> None:
    store.trash.put([done.id])
    assert sizes(store) == (0, 0, 0, 26)


def test_the_database_includes_its_write_ahead_log(sqlite_store: Store) -> None:
    path = Path(sqlite_store.url.removeprefix("sqlite:///"))
    sqlite_store.experiments.create("x", {}, [new_run()])
    wal = path.with_name(f"{path.name}-wal")
    assert sqlite_store.disk_use().database_bytes >= path.stat().st_size + wal.stat().st_size > path.stat().st_size


def test_the_fuller_disk_determines_the_free_space(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    database, elsewhere = sqlite_store._database, Path("/")
    free = {elsewhere: 70, database.files[0]: 50}
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free.get(path, 90)))
    assert disk_use(database, elsewhere).free_bytes == 50


def test_a_new_store_reports_free_space(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/fresh/fedscape.db")
    store.ensure_schema()
    assert sizes(store) == (0, 0, 0, 0) and store.disk_use().free_bytes > 0


def test_dropping_models_keeps_everything_else_of_a_run(store: Store, done: RunRecord) -> None:
    assert store.artifacts.drop_models([done.id]) == 12
    assert sizes(store) == (3, 0, 11, 0)
    assert len([path for path in store.artifacts.folder.rglob("*") if path.is_file()]) == 2
    assert store.artifacts.drop_models([done.id]) == 0
    assert store.queue.get(done.id) == done


def test_models_of_other_and_running_runs_stay(store: Store, done: RunRecord) -> None:
    store.experiments.create("x", {}, [new_run(1)])
    running = store.queue.claim()
    put(store, running.id, "model-last", 13)
    assert store.artifacts.models_bytes([done.id, running.id]) == 12
    ids = [running.id, running.id + 1]
    assert store.artifacts.drop_models(ids) == store.artifacts.models_bytes(ids) == 0
    assert sizes(store) == (3, 25, 11, 0)
