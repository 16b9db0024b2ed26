"""An unusable, deleted or replaced database file, and the files that a kill leaves next to it.

A page, the command line and the dispatcher report each case in the same words.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.data import queries
from engine.worker import Dispatcher
from storage import DatabaseMoved, NotADatabase, StorageError, Store, sqlite
from tests.app.pages import open_page, words
from tests.faults.conftest import listening
from tests.support.command_line import Call, make_call, write_config
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import compute, queue, rows

ROOT = Path(__file__).parents[2]


def file_of(store: Store) -> Path:
    return Path(sa.make_url(store.url).database or "")


def remove(store: Store) -> None:
    for path in file_of(store).parent.glob(f"{file_of(store).name}*"):
        if path.is_file():
            path.unlink()


def text_file(store: Store) -> None:
    remove(store)
    file_of(store).write_text("This is a text, and long enough to be taken for the header of a database. " * 20)


def folder_instead(store: Store) -> None:
    remove(store)
    file_of(store).mkdir()


def overwritten_database(store: Store) -> None:
    data = file_of(store).read_bytes()
    file_of(store).write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


def newer_database(store: Store) -> None:
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()


UNUSABLE = {
    text_file: "is not a usable database",
    overwritten_database: "put a backup",
    folder_instead: "it is a folder: set DATABASE_URL to a file in it",
    newer_database: "update the program",
}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, store: Store) -> Call:
    call = make_call(monkeypatch, capsys, tmp_path)
    monkeypatch.setenv("DATABASE_URL", store.url)
    return call


@pytest.mark.parametrize("damage", UNUSABLE)
def test_an_unusable_file_is_reported_everywhere_and_not_changed(store: Store, tmp_path, damage, call):
    store.close()
    damage(store)
    before = file_of(store).read_bytes() if file_of(store).is_file() else None
    advice = UNUSABLE[damage]
    with pytest.raises(StorageError, match=advice):
        Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock()).run(threading.Event())
    assert advice in words(open_page("live"))
    result = call("run", write_config(tmp_path))
    assert result.code == 2
    assert advice in result.err.splitlines()[-1]
    assert (file_of(store).read_bytes() if file_of(store).is_file() else None) == before


def test_a_read_only_file_is_readable_and_refuses_writes_with_advice(store: Store):
    (run_id,) = queue(store)

    def only_read(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA query_only = ON")

    with listening(store, only_read):
        assert store.queue.get(run_id).status == "queued"
        with pytest.raises(StorageError, match="check its owner and permissions"):
            store.queue.claim()


def test_a_lock_file_that_cannot_be_created_is_named(tmp_path: Path):
    (tmp_path / "x.db.dispatcher.lock").mkdir()
    store = Store(f"sqlite:///{tmp_path / 'x.db'}")
    for ask in (store.try_dispatcher_lock, store.dispatcher_is_running):
        with pytest.raises(StorageError, match=r"cannot write .*x\.db\.dispatcher\.lock"):
            ask()


def test_a_network_file_system_is_reported_by_page_and_dispatcher(store: Store, monkeypatch):
    store.close()
    monkeypatch.setattr(sqlite, "file_system", lambda folder, mounts: "nfs4")
    assert "network file system" in words(open_page("live"))
    with pytest.raises(StorageError, match="PostgreSQL"):
        Dispatcher.acquire(store, FakeExecutor())


# Gone or replaced while it is open.


def test_the_next_read_and_write_notice_a_deleted_file(store: Store):
    run = compute(store)
    remove(store)
    for ask in (lambda: store.queue.get(run.id), lambda: store.queue.request([run.id], "cancel"), store.migrate):
        with pytest.raises(DatabaseMoved, match="deleted or moved away while it was in use"):
            ask()
    assert not file_of(store).exists()


def test_a_dispatcher_ends_when_its_database_is_deleted(store: Store):
    queue(store)
    executor = FakeExecutor()
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        remove(store)
        with pytest.raises(DatabaseMoved, match="put the file back"):
            dispatcher.run(threading.Event())
    assert executor.is_closed


def test_the_page_reports_a_missing_file_and_shows_its_replacement(store: Store, empty_database: Path):
    queue(store)
    store.close()
    assert len(queries.runs()) == 1
    moved = file_of(store).with_name("kept.db")
    shutil.move(file_of(store), moved)
    queries._prepare.clear()
    assert "deleted or moved away" in words(open_page("live"))
    shutil.copy(empty_database, file_of(store))
    queries._prepare.clear()
    assert queries.problem() is None
    assert queries.runs() == []


def test_a_file_that_replaces_an_open_one_is_read_and_written(store: Store, empty_database: Path):
    queue(store)
    assert len(store.queue.runs()) == 1
    remove(store)
    shutil.copy(empty_database, file_of(store))
    assert store.queue.runs() == []
    (run_id,) = queue(store)
    other = Store(store.url)
    assert other.queue.get(run_id).status == "queued"
    other.close()


# Files that a kill leaves next to the database.

WRITE_AND_DIE = """
import os, signal, sys
from storage import Store
from tests.storage.samples import a_round, new_run
store = Store(sys.argv[1])
store.experiments.create("x", {}, [new_run()])
run = store.queue.claim()
for r in range(3):
    store.metrics.append(run.id, run.epoch, [a_round(r)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_alone(index: Path) -> None: ...


def made_rubbish(index: Path) -> None:
    index.write_bytes(b"rubbish" * 5000)


@pytest.mark.parametrize("index_is", [left_alone, Path.unlink, made_rubbish])
@pytest.mark.slow
def test_rounds_in_the_log_of_a_dead_writer_survive_a_damaged_index(store: Store, index_is):
    store.close()
    ended = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, store.url], cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    log, index = (Path(f"{file_of(store)}{ending}") for ending in ("-wal", "-shm"))
    assert log.stat().st_size > 0
    index_is(index)
    assert [r.round for r in store.metrics.rounds(1)] == [0, 1, 2]
    assert store.queue.requeue_running() == [1]


def test_a_truncated_log_keeps_earlier_commits(store: Store):
    undisturbed = compute(store)
    copy = file_of(store).with_name("copy.db")
    for ending in ("", "-wal"):
        shutil.copy(f"{file_of(store)}{ending}", f"{copy}{ending}")
    with open(f"{copy}-wal", "ab") as log:
        log.write(os.urandom(3000))
    found = Store(f"sqlite:///{copy}")
    assert rows(found, undisturbed.id) == rows(store, undisturbed.id)
    found.close()


@pytest.mark.parametrize("code", [None, sqlite.CORRUPT])  # pysqlite3 gives none
def test_damage_found_by_the_backup_before_a_migration_is_not_reported_as_a_full_disk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
):
    def damaged(*_: object) -> None:
        error = sqlite.driver().DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(store._database, "copy", damaged)
    with pytest.raises(NotADatabase, match="malformed"):
        store._database.back_up("0001")
    assert list(tmp_path.glob("*backup*")) == []
