"""kill -9 during a migration: nothing has changed, and the next start repeats it."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage import DiskFull, Store, schema
from tests.faults.conftest import full_database, no_file_beyond
from tests.storage.old_tables import first_version

ROOT = Path(__file__).parents[2]
DIE = """
import os, signal, sys
from storage import Store, schema
store = Store(sys.argv[1])
point = sys.argv[2]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
def then_die(of, name):
    original = getattr(of, name)
    setattr(of, name, lambda *a, **k: (original(*a, **k), die()))
if point == "in the backup":
    os.replace = die
elif point == "between two revisions":
    import alembic.runtime.migration as runtime
    then_die(runtime.HeadMaintainer, "update_to_step")
elif point == "before the commit":
    then_die(schema, "_upgrade")
else:
    then_die(schema, "migrate")
with store.try_dispatcher_lock():
    store.migrate()
"""
POINTS = ["in the backup", "between two revisions", "before the commit", "after the commit"]


@pytest.fixture(scope="module")
def old_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the first version, with a run and an analysis."""
    return first_version(tmp_path_factory.mktemp("old"))


@pytest.fixture
def old(old_file: Path, tmp_path: Path):
    shutil.copy(old_file, tmp_path / "fedscape.db")
    store = Store(f"sqlite:///{tmp_path / 'fedscape.db'}")
    yield store
    store.close()


def revision(store: Store) -> str | None:
    with store._database.read() as connection:
        return schema.stored_revision(connection)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.slow
def test_a_kill_leaves_old_or_new_tables_with_every_row(old: Store, tmp_path: Path, point: str):
    ended = subprocess.run([sys.executable, "-c", DIE, old.url, point], cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    assert not old.dispatcher_is_running()
    assert revision(old) == (schema.revisions()[-1] if point == "after the commit" else "0001")
    old.ensure_schema()
    assert [(run.id, run.status, run.priority) for run in old.queue.runs()] == [(1, "queued", 0)]
    assert [analysis.status for analysis in old.analyses.list(1)] == ["queued"]
    before = Store(f"sqlite:///{tmp_path / 'fedscape.db.backup-0001.db'}")
    assert revision(before) == "0001"
    before.close()
    assert [path.name for path in tmp_path.glob("*.tmp")] == []


def test_without_room_for_a_backup_the_old_tables_remain(old: Store):
    assert revision(old) == "0001"
    with no_file_beyond(40_000), pytest.raises(DiskFull, match="which a migration requires"):
        old.migrate()
    assert revision(old) == "0001"
    old.migrate()
    assert not old.needs_migration()


def test_without_room_for_new_tables_the_old_ones_remain(old: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(old._database, "back_up", lambda label: None)
    assert revision(old) == "0001"
    with full_database(old), pytest.raises(DiskFull, match="free some space"):
        old.migrate()
    assert revision(old) == "0001"
    old.migrate()
    assert old.analyses.list(1)[0].progress == 0.0
