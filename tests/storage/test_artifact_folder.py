"""Nothing outside the artifacts folder is read, written or removed, whatever the database contains."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from storage import ArtifactDamaged, ArtifactNotWritten, ArtifactRecord, Store
from storage.artifact_folder import ArtifactFolder, OutsideFolder
from storage.models import Artifact
from tests.storage.samples import new_run

VALID = "1/model-last-000005-0123456789ab.bin"
SECRET = b"somebody else's"
FORGED = [
    "../secret",
    "1/../../secret",
    "/etc/passwd",
    "{secret}",
    "",
    ".",
    "..",
    "1",
    "1/",
    "1/secret",
    "./" + VALID,
    "1/./model-last-000005-0123456789ab.bin",
    "1//model-last-000005-0123456789ab.bin",
    VALID + "\0",
    VALID + "\n",
    "1\\model-last-000005-0123456789ab.bin",
    "1/model-last-000005-0123456789ab.bin/../../../secret",
    "１/model-last-000005-0123456789ab.bin",
    "1/a/b-000005-0123456789ab.bin",
    "~/secret",
    "file:///etc/passwd",
    "x" * 9000,
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    return tmp_path / "secret"


@pytest.fixture
def stored_models(sqlite_store: Store) -> ArtifactRecord:
    """The models of a finished run."""
    sqlite_store.experiments.create("x", {}, [new_run()])
    run = sqlite_store.queue.claim()
    assert run is not None
    file = sqlite_store.artifacts.write_file(run.id, "model-last", 5, SECRET)
    record = sqlite_store.artifacts.register(run.id, run.epoch, file)
    sqlite_store.queue.finish(run.id, run.epoch, "done")
    return record


def forge(store: Store, path: str) -> ArtifactRecord:
    with store._database.write() as connection:
        connection.execute(sa.update(Artifact).values(path=path, sha256=hashlib.sha256(SECRET).hexdigest()))
    (record,) = store.artifacts.list(1)
    return record


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_path_gives_no_access_to_other_files(
    sqlite_store: Store, stored_models: ArtifactRecord, secret: Path, name: str
) -> None:
    record = forge(sqlite_store, name.format(secret=secret))
    with pytest.raises(ArtifactDamaged, match="is not the name of an artifact"):
        sqlite_store.artifacts.read(record)
    assert sqlite_store.artifacts.drop_models([1]) == len(SECRET)
    sqlite_store.artifacts.sweep()
    assert secret.read_bytes() == SECRET and sqlite_store.artifacts.list(1) == []


@pytest.mark.parametrize("removal", ["delete", "trim", "trash", "keep_last", "rerun"])
def test_removing_files_never_leaves_the_folder(
    sqlite_store: Store, stored_models: ArtifactRecord, secret: Path, removal: str
) -> None:
    record = forge(sqlite_store, "../secret")
    if removal == "delete":
        sqlite_store.artifacts.delete([record.id])
    elif removal == "trim":
        sqlite_store.artifacts.trim_models(0, "for a test")
    elif removal == "trash":
        sqlite_store.trash.put([1])
        sqlite_store.trash.empty()
    elif removal == "keep_last":
        sqlite_store.artifacts.keep_last(1, "model-last", 0)
    else:
        sqlite_store.experiments.delete([1])
    assert secret.exists() and sqlite_store.artifacts.list(1) == []


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_symbolic_links_are_not_followed(
    sqlite_store: Store, stored_models: ArtifactRecord, tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = sqlite_store.artifacts.folder / stored_models.path
    away = outside / file.name
    file.rename(away)
    if kind == "file":
        file.symlink_to(away)
    else:
        file.parent.rmdir()
        file.parent.symlink_to(outside, target_is_directory=True)
        with pytest.raises(ArtifactNotWritten):
            sqlite_store.artifacts.write_file(1, "model-best", 5, b"x")
    with pytest.raises(ArtifactDamaged, match="cannot be read"):
        sqlite_store.artifacts.read(stored_models)
    sqlite_store.artifacts.delete([stored_models.id])
    sqlite_store.artifacts.sweep()
    assert away.read_bytes() == SECRET and list(outside.iterdir()) == [away]


def test_special_files_are_not_read(sqlite_store: Store, stored_models: ArtifactRecord) -> None:
    path = sqlite_store.artifacts.folder / stored_models.path
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ArtifactDamaged, match="is not a regular file"):
        sqlite_store.artifacts.read(stored_models)
    path.unlink()
    path.mkdir()
    with pytest.raises(ArtifactDamaged, match="is not a regular file"):
        sqlite_store.artifacts.read(stored_models)


def test_the_folder_may_be_a_link_to_another_disk(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    sqlite_store.artifacts.folder.symlink_to(tmp_path / "disk", target_is_directory=True)
    name = sqlite_store.artifacts.write_file(1, "checkpoint", 0, b"x").path
    assert sqlite_store.artifacts.files.read(name) == b"x" and list(sqlite_store.artifacts.files.names()) == [name]


@pytest.mark.parametrize("moment", ["mkdir", "open"])
@pytest.mark.parametrize("way", ["write", "link"])
def test_a_file_is_created_although_the_empty_folder_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, way: str
) -> None:
    folder, other, calls = ArtifactFolder(tmp_path / "files"), ArtifactFolder(tmp_path / "files"), []
    (tmp_path / "new").write_bytes(b"new")
    call = getattr(os, moment)

    def disturbed(path: Path, *rest: Any, **options: Any) -> Any:
        result = call(path, *rest, **options)
        if path == tmp_path / "files" / "1" and not calls:
            calls.append(path)
            other.remove("1/model-last-000004-0123456789ab.bin")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(os, moment, disturbed)
        folder.write(VALID, b"new") if way == "write" else folder.link(tmp_path / "new", VALID)
    assert calls and folder.read(VALID) == b"new" and list(folder.names()) == [VALID]


def test_existing_names_are_not_reused(tmp_path: Path) -> None:
    folder = ArtifactFolder(tmp_path / "files")
    folder.write(VALID, b"mine")
    (tmp_path / "new").write_bytes(b"new")
    with pytest.raises(FileExistsError):
        folder.link(tmp_path / "new", VALID)
    assert folder.read(VALID) == b"mine"
    with pytest.raises(OutsideFolder):
        folder.link(tmp_path / "new", "../new")
    with pytest.raises(OutsideFolder):
        folder.new_name(1, "../kind", 5)
