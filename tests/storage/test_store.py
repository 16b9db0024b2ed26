"""URLs, locks and unusable files."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import (
    DatabaseLocked,
    DispatcherLockLost,
    NetworkFileSystem,
    NotADatabase,
    StorageError,
    Store,
    sqlite,
    store_from_env,
)
from tests.storage.samples import new_run

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/local\\040disk ext4 rw 0 0
tmpfs /home tmpfs rw 0 0
server:/home /home nfs4 rw 0 0
server:/data /mnt/donn\u00e9es\u00a0lab nfs4 rw 0 0
"""


def test_creating_a_store_touches_no_file(tmp_path: Path) -> None:
    Store(f"sqlite:///{tmp_path / 'var' / 'x.db'}").close()
    assert list(tmp_path.iterdir()) == []


def test_opening_creates_the_folder(tmp_path: Path) -> None:
    store = Store(Store.default_url(tmp_path))
    store.ensure_schema()
    assert (tmp_path / "var" / "fedscape.db").exists()
    assert store.artifacts.folder == tmp_path / "var" / "fedscape.db-artifacts"
    store.close()


def test_the_environment_names_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert store_from_env(tmp_path).url == f"sqlite:///{tmp_path}/var/fedscape.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/other.db")
    assert store_from_env(tmp_path).url == f"sqlite:///{tmp_path}/other.db"


def test_the_url_is_absolute_for_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Store("sqlite:///here.db").url == f"sqlite:///{tmp_path}/here.db"


def test_a_symbolic_link_leads_to_the_same_store(tmp_path: Path, sqlite_store: Store) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "fedscape.db")
    linked = Store(f"sqlite:///{tmp_path / 'link.db'}")
    assert linked.artifacts.folder == sqlite_store.artifacts.folder
    with sqlite_store.try_dispatcher_lock():
        assert linked.try_dispatcher_lock() is None
    linked.close()


def test_the_default_artifacts_folder_of_a_server_is_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARTIFACTS_DIR", "")
    assert Store("postgresql://host/name").artifacts.folder == Path(__file__).parents[2] / "var" / "artifacts"
    monkeypatch.setenv("ARTIFACTS_DIR", "elsewhere")
    assert Store("postgresql://host/name").artifacts.folder == tmp_path / "elsewhere"


@pytest.mark.parametrize("name", ["what?.db", "100%25.db", "a b#c.db"])
def test_a_path_may_have_any_character(tmp_path: Path, name: str) -> None:
    store = Store(Store.url_of(tmp_path / name))
    store.ensure_schema()
    store.close()
    assert (tmp_path / name).is_file()
    assert Store(store.url).url == store.url
    assert Store(Store.default_url(tmp_path / name)).artifacts.folder.parent == tmp_path / name / "var"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "is not a database URL"),
        ("postgresql://[::/x", "is not a database URL"),
        ("mysql://h/d", "databases are not supported"),
        ("sqlite://", "must be a file"),
        ("sqlite:////tmp/q?x.db", "write a [?] in the path as %3F"),
        ("sqlite:///here.db?timeout=5", "SQLite URLs have no options"),
    ],
)
def test_an_unusable_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        Store(url)


def test_a_password_is_not_shown_in_messages() -> None:
    store = Store("postgresql://me:secret@nowhere.invalid/db")
    assert "secret" not in store._database.name
    assert "secret" in store.url


@pytest.mark.usefixtures("waiting_for_the_disk")
def test_connections_use_safe_settings(sqlite_store: Store) -> None:
    with sqlite_store._database.read() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 10_000, "foreign_keys": 1}


def test_a_locked_database_is_reported(sqlite_store: Store) -> None:
    short_timeout = Store(sqlite_store.url, timeout_s=0.05)
    with sqlite_store._database.write(), pytest.raises(DatabaseLocked, match=r"locked by another process for 0\.05 s"):
        short_timeout.experiments.create("x", {}, [])
    short_timeout.experiments.create("x", {}, [])
    short_timeout.close()


def test_readers_do_not_wait_for_a_writer(sqlite_store: Store) -> None:
    short_timeout = Store(sqlite_store.url, timeout_s=0.05)
    with sqlite_store._database.write() as connection:
        connection.execute(sa.text("DELETE FROM experiments"))
        assert short_timeout.experiments.list() == []
    short_timeout.close()


def test_threads_that_wait_for_the_lock_leave_connections_to_readers(sqlite_store: Store) -> None:
    arrived = threading.Semaphore(0)

    @contextmanager
    def arriving() -> Iterator[None]:
        arrived.release()
        yield

    with closing(Store(sqlite_store.url, writing=arriving)) as store, ThreadPoolExecutor(20) as threads:
        with sqlite_store._database.write():
            writes = [threads.submit(store.events.add, None, "info", "test", "x") for _ in range(20)]
            for _ in writes:
                arrived.acquire()
            assert store.queue.counts() == {} and not any(write.done() for write in writes)
        for write in writes:
            write.result()
        assert len(store.events.list()) == 20


def test_a_thread_that_waits_too_long_for_another_is_told_that_the_database_is_locked(sqlite_store: Store) -> None:
    message = r"another write of this process took longer than 0\.05 s"
    with closing(Store(sqlite_store.url, timeout_s=0.05)) as store, ThreadPoolExecutor(1) as thread:
        with store._database.write(), pytest.raises(DatabaseLocked, match=message):
            thread.submit(store.experiments.create, "x", {}, []).result()
        thread.submit(store.experiments.create, "x", {}, []).result()


def test_a_thread_that_gets_no_connection_is_told_to_try_again(store: Store) -> None:
    with closing(Store(store.url, timeout_s=0.05)) as busy, ExitStack() as reads:
        for _ in range(15):
            reads.enter_context(busy._database.read())
        with pytest.raises(DatabaseLocked, match=r"all connections .* were in use for 0\.05 s; try again"):
            busy.queue.counts()


def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("This is a text, and long enough to be taken for a header of a database file. " * 20)
    store = Store(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(NotADatabase, match=r"move it and x\.db-artifacts away"):
        store.check_schema()
    store.close()


def test_a_damaged_database_is_reported(sqlite_store: Store) -> None:
    sqlite_store.experiments.create("x", {}, [new_run(seed) for seed in range(50)])
    sqlite_store.close()
    path = Path(sa.make_url(sqlite_store.url).database or "")
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(NotADatabase, match="backup"):
        sqlite_store.queue.runs()


def test_a_folder_that_is_not_writable_is_named(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite.os, "access", lambda path, mode: False)  # root may write everywhere
    with sqlite_store._database.read() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match=r"needs files next to it: make .* writable, or copy the database"):
        sqlite_store.experiments.create("x", {}, [])


def test_only_one_dispatcher_holds_the_lock(store: Store) -> None:
    assert not store.dispatcher_is_running()
    lock = store.try_dispatcher_lock()
    assert lock is not None
    assert store.dispatcher_is_running()
    assert store.try_dispatcher_lock() is None
    lock.release()
    lock.release()
    assert not store.dispatcher_is_running()
    with store.try_dispatcher_lock():
        assert store.dispatcher_is_running()
    assert not store.dispatcher_is_running()


def test_checking_the_lock_does_not_block_a_dispatcher(sqlite_store: Store) -> None:
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            sqlite_store.dispatcher_is_running()

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(50):
        lock = sqlite_store.try_dispatcher_lock()
        assert lock is not None
        lock.release()
    stop.set()
    watcher.join()


def test_threads_share_a_store(sqlite_store: Store) -> None:
    threads = [
        threading.Thread(target=lambda: [sqlite_store.events.add(None, "info", "test", "x") for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sqlite_store.events.list()) == 80


@pytest.mark.slow
def test_concurrent_creation_of_a_database_raises_no_lock_error(tmp_path: Path) -> None:
    together = threading.Barrier(6)
    refused: list[StorageError] = []

    def opens(number: int) -> None:
        store = Store(f"sqlite:///{tmp_path / str(number)}.db")
        together.wait()
        try:
            store.needs_migration()
        except StorageError as error:
            refused.append(error)
        store.close()

    for number in range(60):
        threads = [threading.Thread(target=opens, args=(number,)) for _ in range(together.parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert refused == []


def test_the_file_system_is_that_of_the_innermost_mount() -> None:
    folders = ("/var", "/homework", "/home/me", "/home/me/local disk/x", "/mnt/donn\u00e9es\u00a0lab/x")
    assert [sqlite.file_system(Path(f), MOUNTS) for f in folders] == ["ext4", "ext4", "nfs4", "ext4", "nfs4"]


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "file_system", lambda folder, mounts: "nfs4")
    store = Store(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(NetworkFileSystem, match="PostgreSQL"):
        store.needs_migration()
    with pytest.raises(NetworkFileSystem):
        store.try_dispatcher_lock()


def test_without_a_newer_sqlite_the_standard_one_is_used_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, database_url: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pysqlite3.dbapi2", None)
    monkeypatch.setattr(sqlite, "SAFE_VERSION", (99, 0, 0))
    store = Store(database_url)
    store.ensure_schema()
    store.experiments.create("x", {}, [new_run()])
    assert store.queue.claim() is not None
    store.close()
    assert "pip install pysqlite3" in caplog.text
    with closing(sqlite3.connect(sa.make_url(database_url).database or "")) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_a_released_dispatcher_lock_cannot_be_renewed(store: Store) -> None:
    lock = store.try_dispatcher_lock()
    assert lock is not None
    lock.renew()
    lock.release()
    with pytest.raises(DispatcherLockLost, match="released"):
        lock.renew()
    assert not store.dispatcher_is_running()
