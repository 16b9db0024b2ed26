"""A PostgreSQL server for the tests, which listens on a Unix socket only, and its databases."""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from storage import Store
from storage.models import Base

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
}
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Server:
    """A server in a temporary folder, not run as root, which PostgreSQL refuses."""

    def __init__(self, folder: Path, programs: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self.folder, self._programs, self._settings = folder, programs, settings
        self._process: subprocess.Popen[bytes] | None = None
        if (user := _user()) is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        options = ("--username=fedscape", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        with self._log() as log:
            self._program("initdb", f"--pgdata={folder}/data", *options, log=log).wait()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://fedscape@/{database}?host={self.folder}"

    def start(self) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder)} | self._settings
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log() as log:
            self._process = self._program("postgres", "-D", f"{self.folder}/data", *words, log=log)
        deadline = time.monotonic() + START_S
        while not _answers(self.url()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self, how: int = signal.SIGINT) -> None:
        """Ends every connection. SIGINT shuts down cleanly, SIGQUIT without flushing to disk."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    @contextmanager
    def stopped(self, how: int = signal.SIGINT) -> Iterator[None]:
        """Stops the server within the context."""
        self.stop(how)
        try:
            yield
        finally:
            self.start()

    def _program(self, name: str, *words: str, log: Any) -> "subprocess.Popen[bytes]":
        user = _user()
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()} if user else {}
        return subprocess.Popen(  # in its own session, so that Ctrl-C only reaches the tests
            [self._programs / name, *words],
            cwd=self.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            **as_user,
        )

    def _log(self) -> Any:
        return open(self.folder / "log", "ab")


@contextmanager
def running(settings: Mapping[str, str] = SETTINGS) -> Iterator[Server]:
    """A temporary server; removes its files afterwards."""
    found = programs()
    if found is None:
        raise RuntimeError("no PostgreSQL on this machine: .ci/postgres says how to get it")
    folder = Path(
        tempfile.mkdtemp(prefix="fedscape-postgres-")
    )  # short, because the path of a socket has at most about 100 characters
    server = None
    try:
        server = Server(folder, found, settings)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder)


@contextmanager
def blank_database(server_url: str, name: str) -> Iterator[str]:
    """Creates an empty database and yields its URL. ``server_url``: any other database of the server."""
    drop = f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'
    _execute(server_url, drop, f'CREATE DATABASE "{name}"')
    try:
        yield sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server_url, drop)


@contextmanager
def database(server_url: str, name: str) -> Iterator[str]:
    """A database with tables but no rows."""
    with blank_database(server_url, name) as url:
        store = Store(url)
        store.ensure_schema()
        store.close()
        yield url


def empty(url: str) -> None:
    """Deletes every row, much faster than TRUNCATE if there are few."""
    _execute(url, *(f"DELETE FROM {table.name}" for table in reversed(Base.metadata.sorted_tables)))


@cache
def programs() -> Path | None:
    """The folder of PostgreSQL's programs: POSTGRES_BIN, or the one that .ci/postgres finds."""
    folder = os.environ.get("POSTGRES_BIN")
    if folder is None:
        environment = {name: value for name, value in os.environ.items() if name != "CI"}  # search without installing
        found = subprocess.run([ROOT / ".ci" / "postgres"], capture_output=True, text=True, env=environment)
        folder = found.stdout.strip()
    return Path(folder) if folder else None


def missing() -> str | None:
    """The program or package that the tests on PostgreSQL lack on this machine, or None."""
    if find_spec("psycopg") is None:
        return "psycopg (pip install -r requirements-dev.txt)"
    if programs() is None and not given_url():
        return "PostgreSQL (.ci/postgres says how to get it)"
    return None


def given_url() -> str | None:
    """The URL of an existing server on which tests may create databases."""
    return os.environ.get("TEST_POSTGRES_URL")


def _answers(url: str) -> bool:
    try:
        _execute(url, "SELECT 1")
    except sa.exc.OperationalError:
        return False
    return True


def _execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def _user() -> pwd.struct_passwd | None:
    """The user that runs the server if this process is root."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _die_with_parent() -> None:
    """Ends the server even if this process is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
