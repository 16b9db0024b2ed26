"""Uploaded files in the Library: their list, and what may be deleted."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pytest

from app.access.errors import NotAllowed
from app.actions.uploads import delete_upload, save_upload
from engine.config.schema import parse_experiment
from engine.core.paths import default_data_dir
from engine.exchange.records import new_run
from storage import Store
from tests.app.pages import open_page, visit, words
from tests.app.samples import DIGITS
from tests.support.signing_in import MEMBER, OTHER, PEOPLE, as_person, people_sign_in

TABLE = b"a,label\n1,0\n2,1\n"
opened = partial(open_page, "library")


def queue(store: Store, path: str, seeds: Sequence[int] = (0,)) -> list[int]:
    """Runs that read the file."""
    raw = DIGITS | {"dataset": {"name": "custom", "path": path}, "algorithms": ["fedavg"], "seeds": list(seeds)}
    made = store.experiments.create("own data", raw, [new_run(run) for run in parse_experiment(raw).runs()])
    return [run.id for run in store.queue.runs(experiment_ids=[made.id], newest_first=False)]


def finish(store: Store, run_id: int) -> None:
    claimed = store.queue.claim([run_id])
    assert claimed is not None
    store.queue.finish(run_id, claimed.epoch, "done")


def exists(path: str) -> bool:
    return (default_data_dir() / path).is_file()


def test_an_uploaded_file_is_listed_with_its_use_and_deleted_after_a_confirmation(empty_store: Store) -> None:
    path = save_upload("my data.csv", TABLE * 100)
    at = datetime(2026, 3, 1, 12, 5, tzinfo=UTC).timestamp()
    os.utime(default_data_dir() / path, (at, at))
    for run_id in (ids := queue(empty_store, path, [0, 1])):
        finish(empty_store, run_id)
    empty_store.trash.put(ids[:1])
    page = opened()
    assert "my-data.csv  \n:small[1.6 kB · 1 Mar 2026, 12:05 UTC · used by 2 runs]" in words(page)
    assert "The 2 runs that use it keep their results, but can't be rerun or analyzed further." in words(page)
    assert "<dt>Uploaded files</dt><dd>1.6 kB</dd>" in words(page)
    page.button(key=f"delete_now_{path}").click().run()
    assert page.success[0].value == "Deleted my-data.csv, freeing 1.6 kB."
    assert not exists(path) and "Uploaded files" not in words(page)


def test_a_library_without_uploads_does_not_mention_them(empty_store: Store) -> None:
    assert "Uploaded files" not in words(opened())


def test_a_long_list_of_uploads_shows_the_largest(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 3, 2):
        save_upload(f"{number}.csv", TABLE * number)
    monkeypatch.setattr("app.library.uploads.MAX_ROWS", 2)
    text = words(opened())
    assert text.index("3.csv") < text.index("2.csv") and "1.csv" not in text
    assert "1 smaller file not shown." in text


@pytest.mark.parametrize("status", ["queued", "running", "paused", "being analyzed"])
def test_a_file_in_use_is_not_deleted(status: str, empty_store: Store) -> None:
    path = save_upload("mine.csv", TABLE)
    (run_id,) = queue(empty_store, str(default_data_dir() / path))
    if status == "running":
        empty_store.queue.claim([run_id])
    if status == "paused":
        empty_store.queue.request([run_id], "pause")
    if status == "being analyzed":
        finish(empty_store, run_id)
        empty_store.analyses.request(run_id, "landscape", {})
    with pytest.raises(NotAllowed) as refused:
        delete_upload(path)
    assert exists(path) and str(refused.value) == (
        f"Not deleted: mine.csv is in use by runs or analyses that have not finished (run {run_id}). Cancel them or "
        "let them finish first."
    )


def test_runs_with_other_data_do_not_keep_a_file(empty_store: Store) -> None:
    path, other = save_upload("mine.csv", TABLE), save_upload("other.csv", TABLE * 2)
    queue(empty_store, other)
    delete_upload(path)
    assert not exists(path) and exists(other)


@pytest.mark.parametrize(
    "path", ["own.npz", "../own.npz", "uploads/../own.npz", "uploads/.lock", "uploads/half.tmp", "uploads/link.npz", ""]
)
def test_a_forged_path_deletes_nothing(path: str, empty_store: Store) -> None:
    folder = default_data_dir() / "uploads"
    folder.mkdir(parents=True)
    files = [folder.parent / "own.npz", folder.parent.parent / "own.npz", folder / ".lock", folder / "half.tmp"]
    for file in files:
        file.write_bytes(b"precious")
    (folder / "link.npz").symlink_to(files[0])
    (folder / ("0" * 16)).symlink_to(folder.parent)
    with pytest.raises(NotAllowed, match="there is no such file"):
        delete_upload(path)
    with pytest.raises(NotAllowed):
        delete_upload(f"uploads/{'0' * 16}/own.npz")
    assert all(file.read_bytes() == b"precious" for file in files) and (folder / "link.npz").is_symlink()


def test_a_member_sees_and_deletes_only_their_own_files_and_an_admin_all(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    paths = {}
    for person in (MEMBER, OTHER):
        with as_person(person):
            paths[person] = save_upload(f"{person.name.partition('@')[0]}.csv", TABLE)
    of_member, of_admin = (words(visit("library", person.name)) for person in (MEMBER, PEOPLE["admin"]))
    assert "Your uploaded files" in of_member and "ada.csv" in of_member and "bob.csv" not in of_member
    assert "ada.csv" in of_admin and "bob.csv" in of_admin
    assert "csv" not in words(visit("library", PEOPLE["visitor"].name))
    with as_person(MEMBER), pytest.raises(NotAllowed, match="or it is not yours"):
        delete_upload(paths[OTHER])
    with as_person(PEOPLE["admin"]):
        delete_upload(paths[OTHER])
    (entry,) = empty_store.audit.list()
    assert (entry.person, entry.action, entry.subject) == (PEOPLE["admin"].name, "Delete uploaded file", "“bob.csv”")
    assert exists(paths[MEMBER]) and not exists(paths[OTHER])


def test_a_read_only_app_neither_lists_nor_deletes_uploads(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_upload("mine.csv", TABLE)
    monkeypatch.setenv("FEDSCAPE_READ_ONLY", "1")
    assert "mine.csv" not in words(opened())
    with pytest.raises(NotAllowed):
        delete_upload(path)
    assert exists(path)
