"""A dispatcher that dies anywhere loses nothing: the next one's runs equal undisturbed runs.

As in a reboot, the worker dies with it, because runs are computed in the dispatcher's process here.
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
from tests.worker.samples import Undisturbed, kinds, queue, rows
from tests.worker.test_kill_points import Killed, at_third_call, die

TWO = {"algorithms": [{"name": "ditto"}, {"name": "ditto", "label": "again"}]}


class InPlace(FakeExecutor):
    """Computes each ticket synchronously on submission."""

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
    """Makes the process die right after the call."""
    original = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        raise Killed

    return owner, name, dying


@pytest.fixture
def undisturbed(undisturbed_run: Callable[..., Undisturbed]) -> Undisturbed:
    return undisturbed_run()


KILL_POINTS: dict[str, tuple[Any, str, Callable]] = {
    "running runs queued again": after(RunQueue, "requeue_running"),
    "unused files found, not removed yet": (ArtifactStore, "remove_files", die),
    "sweeping done": after(ArtifactStore, "sweep"),
    "trash emptied": after(Trash, "empty"),
    "in the claim": after(RunClaims, "claim"),
    "claimed, not submitted": (InPlace, "submit", die),
    "in a round": (Simulation, "_record_round", at_third_call(Simulation._record_round, before=True)),
    "rounds committed": (Metrics, "append", at_third_call(Metrics.append, before=False)),
    "last round committed, status not set": (RunQueue, "finish", die),
    "status set, end not polled": (InPlace, "poll", die),
}


def run_until_killed(store: Store, executor: FakeExecutor) -> None:
    """As after kill -9: only what the system closes is closed."""
    lock = store.try_dispatcher_lock()
    with suppress(Killed):
        Dispatcher(store, executor, lock).run(threading.Event(), until_idle=True)
    lock.release()


def run_to_the_end(store: Store) -> None:
    with Dispatcher(store, InPlace(store), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)


@pytest.mark.parametrize("point", KILL_POINTS)
@pytest.mark.slow
def test_the_next_dispatcher_finishes_the_runs_of_a_killed_one(
    store: Store, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch, point: str
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
        assert rows(store, run_id) == undisturbed.rows
        assert store.queue.get(run_id).summary == undisturbed.run.summary
        assert kinds(store, run_id) == undisturbed.kinds


@pytest.mark.parametrize(("control", "becomes"), [("cancel", "cancelled"), ("pause", "paused")])
@pytest.mark.parametrize("point", ["worker killed", "status set"])
def test_a_run_is_stopped_even_if_the_dispatcher_is_killed_meanwhile(
    store, undisturbed, clock, monkeypatch, control, becomes, point
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
    assert rows(store, wanted) == undisturbed.rows


def test_the_next_dispatcher_completes_an_interrupted_migration(
    undisturbed: Undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = Store(f"sqlite:///{tmp_path / 'old.db'}")
    with monkeypatch.context() as patch:
        migrate_to_first_version(old, tmp_path / "migrations", patch)
    with old._database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO experiments (name, config, created_at, archived, example) "
            "VALUES ('old', '{}', '2026-01-01 00:00:00.000000', 0, 0)"
        )
        connection.exec_driver_sql(
            "INSERT INTO runs (experiment_id, position, algorithm, label, seed, hparams, config, digest, status, "
            "rounds, round, epoch, control, created_at, archived) "
            "VALUES (1, 0, 'ditto', 'ditto', 0, '{}', ?, ?, 'running', 6, -1, 1, '', '2026-01-01 00:00:00.000000', 0)",
            (json.dumps(undisturbed.run.config), undisturbed.run.digest),
        )
    with monkeypatch.context() as patch:
        patch.setattr(*after(schema, "_upgrade"))
        run_until_killed(old, InPlace(old))
    assert old.needs_migration()
    run_to_the_end(old)
    assert rows(old, 1) == undisturbed.rows
    old.close()


def migrate_to_first_version(store: Store, folder: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.copytree(schema.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__", "000[2-9]_*.py"))
    patch.setattr(schema, "MIGRATIONS", folder)
    patch.setattr(schema, "revisions", schema.revisions.__wrapped__)
    store.migrate()
