"""A killed restore leaves the old database or the restored one, complete with all artifacts."""

import subprocess
import sys
from pathlib import Path

import pytest

from storage import Store
from tests.storage.processes import ROOT
from tests.storage.samples import a_round, new_run

# One process per kill point: it is killed at the nth change to the disk by Python, or the nth time SQLite has
# overwritten some pages. The last process completes.
RESTORES = """
import os, shutil, signal, sys
from pathlib import Path
import storage.restore
from storage import Store
from tests.support.statements import compile_once

folder, at, seen = Path(sys.argv[1]), 0, 0
CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"}
driver = storage.restore.driver()

# Once for all of them: definitions of the schema, and compiled statements.
compile_once(setattr)
shutil.copytree(folder / "old", folder / "first")
first = Store(f"sqlite:///{folder / 'first' / 'x.db'}")
first.restore(folder / "b.zip", replace=True)
first.close()

def step(*_):
    global seen
    seen += 1
    if seen == at:
        os.kill(os.getpid(), signal.SIGKILL)

def watch(event, arguments):
    if event in CHANGES or event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        step()

class Connection(driver.Connection):
    def backup(self, target, pages):
        super().backup(target, pages=32, progress=step)

class Driver:
    Error, OperationalError, DatabaseError = driver.Error, driver.OperationalError, driver.DatabaseError

    def connect(self, *of, **how):
        step()
        return driver.connect(*of, factory=Connection, **how)

storage.restore.driver = Driver
while True:
    at += 1
    shutil.copytree(folder / "old", folder / f"{at:03d}")
    child = os.fork()
    if child == 0:
        sys.addaudithook(watch)
        Store(f"sqlite:///{folder / f'{at:03d}' / 'x.db'}").restore(folder / "b.zip", replace=True)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != -signal.SIGKILL:
        print(at)
        sys.exit(status)
"""


def filled(path: Path, seeds: list[int]) -> Store:
    store = Store(f"sqlite:///{path}")
    store.ensure_schema()
    store.experiments.create("x", {}, [new_run(seed) for seed in seeds])
    for seed in seeds:
        run = store.queue.claim()
        assert run is not None
        store.metrics.append(run.id, run.epoch, [a_round(round) for round in range(5)])
        file = store.artifacts.write_file(run.id, "model-last", 4, f"models of {seed}".encode())
        store.artifacts.register(run.id, run.epoch, file)
        store.queue.finish(run.id, run.epoch, "done")
    return store


def content(store: Store) -> list[tuple]:
    """Seeds, rounds and artifacts, read with all integrity checks."""
    return sorted(
        (run.seed, len(store.metrics.rounds(run.id)), *(store.artifacts.read(a) for a in store.artifacts.list(run.id)))
        for run in store.queue.runs()
    )


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_restore_killed_at_any_step_leaves_one_database_or_the_other(tmp_path: Path) -> None:
    source, target = filled(tmp_path / "source.db", [5, 6]), filled(tmp_path / "old" / "x.db", [1])
    source.back_up(tmp_path / "b.zip", "1")
    old, new = content(target), content(source)
    target.close()
    done = subprocess.run([sys.executable, "-c", RESTORES, tmp_path], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    killed = sorted(tmp_path.glob("[0-9]*/"))
    found = [after_a_kill(folder, old, new) for folder in killed]
    assert len(found) == int(done.stdout) > 30 and "neither" not in found
    switch = found.index("new")
    assert switch == found.count("old")  # there is one switch
    for folder in {killed[0], *killed[switch - 1 : switch + 2], *killed[::10], killed[-1]}:
        restore_again(folder, new)


def after_a_kill(folder: Path, old: list[tuple], new: list[tuple]) -> str:
    """Returns which of the two databases is present, after checking that it is complete."""
    store = Store(f"sqlite:///{folder / 'x.db'}")
    found = "old" if content(store) == old else "new" if content(store) == new else "neither"
    for saved in folder.glob("x.db.replaced-*.db"):
        assert content(Store(f"sqlite:///{saved}")) == old
    store.artifacts.sweep()
    assert content(store) == (old if found == "old" else new)
    store.close()
    return found


def restore_again(folder: Path, new: list[tuple]) -> None:
    """The leftovers of a killed restore do not block the next one."""
    store = Store(f"sqlite:///{folder / 'x.db'}")
    assert store.restore(folder.parent / "b.zip", replace=True).runs == 2
    assert content(store) == new and len(list(store.artifacts.files.names())) == 2
    assert not (folder / "x.db.restoring").exists()
    store.close()
