"""A dispatcher that dies anywhere loses nothing: the next one's runs end with the rows of runs left in peace.

As after a reboot, the worker dies with it: runs are computed inside the dispatcher's own process here.
"""

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.simulation.simulate import Simulation
from engine.worker import Dispatcher, Ended, Work, cleanup
from engine.worker.dispatcher import CHECK_S, STOP_GRACE_S
from engine.worker.process import work_on
from engine.worker.work_queue import RunClaims
from storage import Store, schema
from storage.artifacts import ArtifactStore
from storage.metrics import Metrics
from storage.run_queue import RunQueue
from storage.trash import Trash
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import Peace, kinds, queue, rows
from tests.worker.test_kill_points import Killed, instead, the_third_time

TWO = {"algorithms": [{"name": "ditto"}, {"name": "ditto", "label": "again"}]}


class InPlace(FakeExecutor):
    """Computes a ticket where it is submitted, one at a time."""

    slots = 1

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    @property
    def free(self) -> int:
        return int(not self.ended)

    def submit(self, ticket: Work) -> None:
        work_on(self.store, ticket)
        self.ended.append(Ended(ticket))


def after(owner: Any, name: str) -> tuple[Any, str, Callable]:
    """Dies when the call has returned."""
    original = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        raise Killed

    return owner, name, dying


@pytest.fixture
def peace(in_peace: Callable[..., Peace]) -> Peace:
    return in_peace()


KILL_POINTS: dict[str, tuple[Any, str, Callable]] = {
    "what was running is queued again": after(RunQueue, "requeue_running"),
    "rubbish found, not removed yet": (ArtifactStore, "remove_files", instead),
    "sweeping done": after(ArtifactStore, "sweep"),
    "trash emptied": after(Trash, "empty"),
    "in the claim": after(RunClaims, "claim"),
    "claimed, handed to nobody": (InPlace, "submit", instead),
    "in a round": (Simulation, "_record_round", the_third_time(Simulation._record_round, before=True)),
    "rounds committed": (Metrics, "append", the_third_time(Metrics.append, before=False)),
    "last round committed, status not set": (RunQueue, "finish", instead),
    "status set, its end not heard": (InPlace, "poll", instead),
}


def run_until_killed(store: Store, executor: FakeExecutor) -> None:
    """As kill -9 leaves it: nothing is closed but what the system closes."""
    lock = store.try_dispatcher_lock()
    with suppress(Killed):
        Dispatcher(store, executor, lock).run(threading.Event(), until_idle=True)
    lock.release()


def run_to_the_end(store: Store) -> None:
    with Dispatcher(store, InPlace(store), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)


@pytest.mark.parametrize("point", KILL_POINTS)
def test_the_next_dispatcher_ends_what_a_killed_one_left(
    store: Store, peace: Peace, monkeypatch: pytest.MonkeyPatch, point: str
):
    monkeypatch.setattr(cleanup, "TRASH_RETENTION", timedelta(0))
    (unwanted,) = queue(store)
    store.artifacts.register(unwanted, None, store.artifacts.write_file(unwanted, "checkpoint", 1, b"state"))
    store.trash.put([unwanted])
    store.artifacts.write_file(unwanted, "checkpoint", 3, b"rubbish")
    run_ids = queue(store, **TWO)
    with monkeypatch.context() as patch:
        patch.setattr(*KILL_POINTS[point])
        run_until_killed(store, InPlace(store))
    assert store.queue.counts() != {"done": 2}, "it was over before it could be killed"
    run_to_the_end(store)
    assert store.queue.counts() == {"done": 2}
    assert store.trash.list() == []
    assert store.artifacts.sweep() == 0
    for run_id in run_ids:
        assert rows(store, run_id) == peace.rows
        assert store.queue.get(run_id).summary == peace.run.summary
        assert kinds(store, run_id) == peace.kinds


@pytest.mark.parametrize(("control", "becomes"), [("cancel", "cancelled"), ("pause", "paused")])
@pytest.mark.parametrize("point", ["worker killed", "status set"])
def test_a_dispatcher_killed_while_it_stops_a_run_has_stopped_it(
    store, peace, clock, monkeypatch, control, becomes, point
):
    unwanted, wanted = queue(store, **TWO, checkpoint_s=1000)
    executor, lock = FakeExecutor(), store.try_dispatcher_lock()
    dispatcher = Dispatcher(store, executor, lock, clock=clock)
    dispatcher.step()
    store.queue.request([unwanted], control)
    clock.now = CHECK_S
    dispatcher.step()
    clock.now += STOP_GRACE_S
    with monkeypatch.context() as patch:
        patch.setattr(*(after(FakeExecutor, "kill") if point == "worker killed" else after(RunQueue, "requeue")))
        with pytest.raises(Killed):
            dispatcher.step()
    lock.release()
    run_to_the_end(store)
    assert store.queue.get(unwanted).status == becomes
    assert rows(store, wanted) == peace.rows


def test_a_dispatcher_killed_while_it_migrates_leaves_the_queue_to_the_next(
    peace: Peace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = Store(f"sqlite:///{tmp_path / 'old.db'}")
    with monkeypatch.context() as patch:
        migrate_to_the_first_tables(old, tmp_path / "migrations", patch)
    with old._database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO experiments (name, config, created_at, archived, example) "
            "VALUES ('old', '{}', '2026-01-01 00:00:00.000000', 0, 0)"
        )
        connection.exec_driver_sql(
            "INSERT INTO runs (experiment_id, position, algorithm, label, seed, hparams, config, digest, status, "
            "rounds, round, epoch, control, created_at, archived) "
            "VALUES (1, 0, 'ditto', 'ditto', 0, '{}', ?, ?, 'running', 6, -1, 1, '', '2026-01-01 00:00:00.000000', 0)",
            (json.dumps(peace.run.config), peace.run.digest),
        )
    with monkeypatch.context() as patch:
        patch.setattr(*after(schema, "_upgrade"))
        run_until_killed(old, InPlace(old))
    assert old.needs_migration()
    run_to_the_end(old)
    assert rows(old, 1) == peace.rows
    old.close()


def migrate_to_the_first_tables(store: Store, folder: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.copytree(schema.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__", "000[2-9]_*.py"))
    patch.setattr(schema, "MIGRATIONS", folder)
    patch.setattr(schema, "revisions", schema.revisions.__wrapped__)
    store.migrate()
