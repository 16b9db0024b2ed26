"""FEDSCAPE_EXECUTOR: which executor computes, and what it needs."""

import subprocess
import sys
import threading

import pytest

from engine.core.errors import InvalidConfig
from engine.worker import LocalExecutor, choice, local_executor, ray_cluster, service
from engine.worker.ray_cluster import ray_address
from storage import Store
from tests.worker.fakes import FakeExecutor
from tests.worker.samples import queue

POSTGRES = "postgresql+psycopg://nobody@localhost/nothing"


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_EXECUTOR", "ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)


def test_workers_are_local_by_default(store, monkeypatch):
    monkeypatch.setenv("FEDSCAPE_EXECUTOR", "local")
    assert choice.executor_kind(store) == "local"
    monkeypatch.setenv("FEDSCAPE_EXECUTOR", "")
    monkeypatch.setattr(local_executor, "ensure_running", lambda: None)  # the fork server, which imports torch
    executor = choice.make_executor(store, slots=1)
    assert isinstance(executor, LocalExecutor)
    executor.close()


def test_an_unknown_executor_is_refused(store, monkeypatch):
    monkeypatch.setenv("FEDSCAPE_EXECUTOR", "slurm")
    with pytest.raises(InvalidConfig, match="'slurm', must be local or ray"):
        choice.executor_kind(store)


def test_ray_needs_postgresql(store):
    with pytest.raises(InvalidConfig, match="FEDSCAPE_EXECUTOR=ray needs DATABASE_URL=postgresql://"):
        service.serve(store.url)
    assert choice.executor_kind(Store(POSTGRES)) == "ray"


def test_without_tokens_ray_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(InvalidConfig, match="RAY_AUTH_MODE: 'disabled', must be 'token'"):
        ray_address()


@pytest.mark.parametrize("address", ["local", "ray://head:10001"])
def test_an_address_that_is_no_cluster_is_refused(monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InvalidConfig, match="must be auto or the HOST:PORT"):
        ray_address()


def test_ray_that_is_not_installed_is_named_with_its_requirements(monkeypatch):
    monkeypatch.setattr(ray_cluster, "find_spec", lambda name: None)
    with pytest.raises(InvalidConfig, match=r"pip install -r requirements-ray\.txt"):
        choice.make_executor(Store(POSTGRES))


@pytest.mark.slow
def test_ray_is_not_imported_unless_it_is_chosen():
    modules = "engine.worker, engine.worker.ray_executor, engine.worker.ray_cluster"
    command = f"import sys, {modules}; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0


def test_a_dispatcher_without_a_cluster_leaves_the_lock_to_others_and_tries_again(store, monkeypatch):
    (run_id,) = queue(store)
    locked, problems = [], []

    class Outage(FakeExecutor):
        slots, device, problem, has_given_up = 0, "", "no cluster", True

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            """The pause between two tries."""
            locked.append(store.dispatcher_is_running())
            return False

        def is_set(self) -> bool:
            return len(locked) == 2

    def make_executor(store: Store, slots: int | None, problem: str) -> FakeExecutor:
        assert store.dispatcher_is_running()
        problems.append(problem)
        return Outage()

    monkeypatch.setattr(service, "executor_kind", lambda store: "ray")
    monkeypatch.setattr(service, "make_executor", make_executor)
    monkeypatch.setattr(service.threading, "Event", Stop)
    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    service.serve(store.url)
    assert locked == [False] * 2
    assert problems == ["", "no cluster"]
    assert store.queue.get(run_id).status == "queued"
