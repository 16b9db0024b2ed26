"""A backup is consistent even under writes; a restore is complete or changes nothing."""

import json
import os
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import storage.restore
import storage.sqlite
from storage import (
    ArchiveInvalid,
    ArtifactRecord,
    DatabaseLocked,
    SchemaTooNew,
    StorageError,
    Store,
    new_archive,
    schema,
)
from storage.archive import BACKUP
from tests.storage.old_tables import first_version
from tests.storage.samples import a_round, new_run


def put(store: Store, run_id: int, kind: str, round: int = 0, data: bytes = b"state") -> ArtifactRecord:
    return store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, kind, round, data))


@pytest.fixture
def full(sqlite_store: Store) -> Store:
    """A finished run with a round, models and an analysis, and a paused run with a checkpoint."""
    store = sqlite_store
    store.experiments.create("two", {"name": "two"}, [new_run(0), new_run(1)])
    done, paused = store.queue.claim(), store.queue.claim()
    assert done is not None and paused is not None
    store.metrics.append(done.id, done.epoch, [a_round(0, clusters=[0, 1, 0, 1])])
    for kind in ("model-last", "checkpoint"):
        put(store, done.id, kind, data=kind.encode())
    store.queue.finish(done.id, done.epoch, "done")
    store.analyses.request(done.id, "landscape", {})
    analysis = store.analyses.claim()
    assert analysis is not None
    result = store.artifacts.write_file(done.id, "analysis", 0, b"a")
    store.analyses.finish(analysis.id, analysis.epoch, "done", result=result)
    store.metrics.append(paused.id, paused.epoch, [a_round(0)])
    put(store, paused.id, "checkpoint")
    store.queue.request([paused.id], "pause")
    store.queue.finish(paused.id, paused.epoch, "paused")
    store.events.add(done.id, "info", "note", "it went well")
    store.saved_views.save("library", "mine", "status=done")
    return store


def content(store: Store) -> list:
    """Everything stored, for comparison with ==."""
    runs = store.queue.runs(include_archived=True)
    return [
        runs,
        store.experiments.list(True),
        store.saved_views.list("library"),
        store.events.list(),
        [store.analyses.for_runs([run.id for run in runs], "landscape")],
        [
            (r.round, r.scalars["seconds"], r.arrays["personalized.accuracy"].tobytes(), r.cohort.tolist())
            for run in runs
            for r in store.metrics.rounds(run.id)
        ],
        [
            (a.kind, store.artifacts.read(a))
            for run in runs
            for a in store.artifacts.list(run.id)
            if a.kind != "checkpoint" or not run.is_finished
        ],
    ]


def other_store(folder: Path) -> Store:
    return Store(f"sqlite:///{folder / 'other.db'}")


def test_a_backup_restores_everything(full: Store, tmp_path: Path) -> None:
    backup = full.back_up(tmp_path / "b.zip", "1.2")
    assert (backup.runs, backup.size_bytes, backup.left_out) == (2, (tmp_path / "b.zip").stat().st_size, ())
    other = other_store(tmp_path)
    restored = other.restore(tmp_path / "b.zip")
    assert (restored.runs, restored.previous) == (2, None)
    assert content(other) == content(full)
    assert other.artifacts.sweep() == 0 and other.queue.find_by_digest(["digest-1"])[0].status == "paused"


def test_it_describes_itself_and_omits_unneeded_files(full: Store, tmp_path: Path) -> None:
    full.back_up(tmp_path / "b.zip", "1.2")
    with zipfile.ZipFile(tmp_path / "b.zip") as file:
        manifest = json.loads(file.read("manifest.json"))
        kinds = sorted(name.split("/")[-1].split("-0")[0] for name in file.namelist() if name.startswith("artifacts/"))
    assert (manifest["kind"], manifest["version"], manifest["runs"]) == ("Fedscape backup", "1.2", 2)
    assert kinds == ["analysis", "checkpoint", "model-last"]  # of the paused run
    assert len(list(tmp_path.glob(".*"))) == 0


@pytest.mark.slow
def test_it_is_a_snapshot_even_while_a_run_writes(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.sqlite, "PAGES", 1)
    sqlite_store.experiments.create("x", {}, [new_run()])
    run = sqlite_store.queue.claim()
    assert run is not None
    stop = threading.Event()

    def compute() -> int:
        mine, round = Store(sqlite_store.url), 0
        while not stop.is_set():
            file = mine.artifacts.write_file(run.id, "checkpoint", round, b"%d" % round)
            mine.metrics.append(run.id, run.epoch, [a_round(round)], checkpoint=file)
            mine.artifacts.keep_last(run.id, "checkpoint", 2)
            round += 1
        return round

    rounds = []
    with ThreadPoolExecutor() as pool:
        written = pool.submit(compute)
        try:
            for number in range(5):
                sqlite_store.back_up(tmp_path / f"{number}.zip", "1")
                other = Store(f"sqlite:///{tmp_path / f'{number}.db'}")
                other.restore(tmp_path / f"{number}.zip")
                there = [r.round for r in other.metrics.rounds(run.id)]
                assert there == list(range(len(there))) and other.queue.get(run.id).round == (there or [-1])[-1]
                assert all(other.artifacts.read(a) == b"%d" % a.round for a in other.artifacts.list(run.id))
                rounds.append(len(there))
        finally:
            stop.set()
        assert rounds[0] < rounds[-1] <= written.result()


def test_unreadable_files_are_reported_and_left_out_of_the_backup(full: Store, tmp_path: Path) -> None:
    record = full.artifacts.latest(1, "model-last")
    assert record is not None
    (full.artifacts.folder / record.path).write_bytes(b"something else")
    (calls,) = full.back_up(tmp_path / "b.zip", "1").left_out
    assert "the model-last of run 1" in calls
    other = other_store(tmp_path)
    other.restore(tmp_path / "b.zip")
    assert other.artifacts.latest(1, "model-last") is None and other.artifacts.latest(2, "checkpoint") is not None


@pytest.mark.parametrize("at", [1, 3, 5])
def test_an_interrupted_backup_leaves_nothing_behind(full: Store, tmp_path: Path, at: int) -> None:
    before, calls = set(tmp_path.iterdir()), []

    def interrupt(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        full.back_up(tmp_path / "b.zip", "1", interrupt)
    assert set(tmp_path.iterdir()) == before


def test_it_replaces_a_backup_but_no_other_file(full: Store, tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text("name: mine")
    with pytest.raises(StorageError, match="exists and is not a Fedscape backup; choose another path"):
        full.back_up(tmp_path / "experiment.yaml", "1")
    assert (tmp_path / "experiment.yaml").read_text() == "name: mine"
    full.back_up(tmp_path / "b.zip", "1")
    full.back_up(tmp_path / "b.zip", "2")


def test_it_cannot_overwrite_the_database(full: Store) -> None:
    with pytest.raises(StorageError, match="another name"):
        full.back_up(Path(full.url.removeprefix("sqlite:///")), "1")


def test_progress_ends_at_the_total(full: Store, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    full.back_up(tmp_path / "b.zip", "1", lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] and calls == sorted(calls)
    calls.clear()
    other_store(tmp_path).restore(tmp_path / "b.zip", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1]


def test_existing_runs_are_replaced_only_on_request_and_saved(full: Store, tmp_path: Path) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    before = content(full)
    full.experiments.create("later", {}, [new_run(7)])
    later = content(full)
    with pytest.raises(StorageError, match="has 3 runs; --replace"):
        full.restore(tmp_path / "b.zip")
    one = other_store(tmp_path)
    one.ensure_schema()
    one.experiments.create("x", {}, [new_run()])
    with pytest.raises(StorageError, match="has 1 run; --replace"):
        one.restore(tmp_path / "b.zip")
    assert content(full) == later
    saved = full.restore(tmp_path / "b.zip", replace=True).previous
    assert content(full) == before
    assert saved is not None and content(Store(f"sqlite:///{saved}")) == later


def test_a_damaged_database_is_replaced_on_request(full: Store, tmp_path: Path) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    before, path = content(full), Path(full.url.removeprefix("sqlite:///"))
    full.close()
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match=r"not a usable database .* --replace"):
        full.restore(tmp_path / "b.zip")
    saved = full.restore(tmp_path / "b.zip", replace=True).previous
    assert content(full) == before and saved is not None and saved.read_bytes().startswith(b"no database")


@pytest.mark.slow
def test_nothing_is_replaced_while_an_engine_or_a_page_uses_it(full: Store, tmp_path: Path) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    other = Store(full.url)
    with other.try_dispatcher_lock(), pytest.raises(StorageError, match=r"an engine is running on .*; stop the app"):  # type: ignore[union-attr]
        full.restore(tmp_path / "b.zip", replace=True)
    before = content(other)
    with pytest.raises(DatabaseLocked, match="is in use"):
        full.restore(tmp_path / "b.zip", replace=True)
    assert content(full) == before and not list(tmp_path.glob("*.restoring"))
    other.close()
    full.restore(tmp_path / "b.zip", replace=True)


def damaged(path: Path, how: str) -> Path:
    """A damaged copy of the backup."""
    copy = path.with_name(f"{how}.zip")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "manifest.json":
                manifest = json.loads(data)
                manifest |= {"of another kind": {"kind": "Fedscape bundle"}, "newer": {"format": 2}}.get(how, {})
                manifest |= {"of a newer schema": {"schema": "9999"}}.get(how, {})
                data = json.dumps(manifest).encode()
            if how == "with a bit turned" and name.startswith("artifacts/"):
                data = bytes([data[0] ^ 1]) + data[1:]
            if how == "without its database" and name == "fedscape.db":
                continue
            kind = zipfile.ZIP_DEFLATED if how == "repacked" else zipfile.ZIP_STORED
            target.writestr(name, data, kind)
    if how == "cut short":
        copy.write_bytes(copy.read_bytes()[:-100])
    if how == "no zip":
        copy.write_text("a letter")
    return copy


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("with a bit turned", "SHA-256 differs"),
        ("without its database", "'fedscape.db' is missing"),
        ("cut short", "is not a Fedscape backup"),
        ("no zip", "is not a Fedscape backup"),
        ("repacked", "repacked"),
        ("of another kind", "is a Fedscape bundle: use .* for it; give a Fedscape backup"),
        ("newer", "newer version"),
        ("of a newer schema", "newer version .schema 9999"),
    ],
)
def test_a_damaged_backup_changes_nothing(full: Store, tmp_path: Path, how: str, words: str) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    before = content(full)
    with pytest.raises((ArchiveInvalid, SchemaTooNew), match=words):
        full.restore(damaged(tmp_path / "b.zip", how), replace=True)
    assert content(full) == before and not list(tmp_path.glob("*.re*"))


def test_the_refusal_of_a_forged_database_says_what_to_do(tmp_path: Path) -> None:
    path = first_version(tmp_path)
    with new_archive(tmp_path / "b.zip", BACKUP) as archive:
        archive.add_file("fedscape.db", path)
        archive.facts = {"schema": "0001", "runs": 2}
    words = "states 2 runs, but its database has 1; get the file again, or restore another backup"
    with pytest.raises(ArchiveInvalid, match=words):
        other_store(tmp_path).restore(tmp_path / "b.zip")


def test_a_member_outside_the_artifacts_folder_is_refused(full: Store, tmp_path: Path) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as file:
        manifest = json.loads(file.read("manifest.json"))
        name = next(name for name in manifest["members"] if name.startswith("artifacts/"))
        manifest["members"]["artifacts/../escaped"] = manifest["members"][name]
        data = file.read(name)
    with zipfile.ZipFile(tmp_path / "b.zip") as old, zipfile.ZipFile(tmp_path / "c.zip", "w") as new:
        for member in old.namelist():
            new.writestr(member, json.dumps(manifest) if member == "manifest.json" else old.read(member))
        new.writestr("artifacts/../escaped", data)
    with pytest.raises(ArchiveInvalid, match="not a valid member name"):
        other_store(tmp_path).restore(tmp_path / "c.zip")


@pytest.mark.parametrize("call", ["rename", "link", "fsync", "mkdir"])
@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
@pytest.mark.slow
def test_a_disk_error_during_a_restore_changes_nothing(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, fails_at: int
) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    before, files, works, calls = content(full), folder_of(full), getattr(os, call), []

    def failing(*of: Any, **how: Any) -> Any:
        calls.append(of)
        if len(calls) > fails_at:
            raise OSError(28, "No space left on device")
        return works(*of, **how)

    monkeypatch.setattr(os, call, failing)
    if call == "link":  # a disk without links: files are copied
        full.restore(tmp_path / "b.zip", replace=True)
    elif call != "rename" or fails_at < 2:  # the existing database and its artifacts
        with pytest.raises(StorageError, match="No space left"):
            full.restore(tmp_path / "b.zip", replace=True)
        assert not list(tmp_path.glob("*.re*")) and folder_of(full) == files
    monkeypatch.undo()
    assert content(full) == before


@pytest.mark.parametrize("is_new", [False, True], ids=["over a database", "as a new database"])
def test_an_interrupt_just_after_the_switch_leaves_the_restored_database_and_the_saved_one(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    restored = content(full)
    full.experiments.create("later", {}, [new_run(7)])
    target, replaced = (other_store(tmp_path), []) if is_new else (full, [content(full)])
    overwrite = storage.restore._overwrite

    def interrupted(*args: Any) -> None:
        overwrite(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.restore, "_overwrite", interrupted)
    with pytest.raises(KeyboardInterrupt):
        target.restore(tmp_path / "b.zip", replace=True)
    assert content(target) == restored
    assert [content(Store(f"sqlite:///{saved}")) for saved in tmp_path.glob("*.replaced-*.db")] == replaced


def test_an_interrupt_before_the_switch_changes_nothing(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    before, files = content(full), folder_of(full)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(full.artifacts.files, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        full.restore(tmp_path / "b.zip", replace=True)
    assert content(full) == before and folder_of(full) == files and not list(tmp_path.glob("*.re*"))


def test_a_folder_that_cannot_be_flushed_after_the_switch_is_only_reported(
    full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full.back_up(tmp_path / "b.zip", "1")
    before, path = content(full), Path(full.url.removeprefix("sqlite:///"))
    full.close()
    path.write_bytes(b"no database" * 1000)
    replace = os.replace

    def replaced(*args: Any) -> None:
        replace(*args)
        monkeypatch.setattr(storage.restore, "sync_folder", failing)

    def failing(folder: Path) -> None:
        assert folder == path.parent
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", replaced)
    saved = full.restore(tmp_path / "b.zip", replace=True).previous
    assert content(full) == before and saved is not None and saved.read_bytes().startswith(b"no database")
    assert "was restored, but a power cut could undo it (Input/output error); check its disk" in caplog.text


def folder_of(store: Store) -> list[Path]:
    return sorted(store.artifacts.folder.rglob("*"))


@pytest.mark.parametrize("migrated", [False, True])
def test_a_backup_of_the_first_schema_is_restored_and_migrated(tmp_path: Path, migrated: bool) -> None:
    path, revision = first_version(tmp_path), "0001"
    if migrated:
        old = Store(f"sqlite:///{path}")
        old.migrate()
        old.close()
        revision = schema.revisions()[-1]
    with new_archive(tmp_path / "b.zip", BACKUP) as archive:
        archive.add_file("fedscape.db", path)
        archive.facts = {"schema": revision, "runs": 1}
    other = other_store(tmp_path)
    other.restore(tmp_path / "b.zip")
    assert [run.label for run in other.queue.runs()] == ["ditto"] and not other.needs_migration()


def test_backing_up_a_server_database_names_pg_dump(tmp_path: Path) -> None:
    store = Store("postgresql://nobody:secret@nowhere/runs", artifacts=tmp_path / "files")
    with pytest.raises(StorageError, match=r"pg_dump .* artifacts") as refused:
        store.back_up(tmp_path / "b.zip", "1")
    assert "secret" not in str(refused.value)
    with pytest.raises(StorageError, match="pg_restore"):
        store.restore(tmp_path / "b.zip")
