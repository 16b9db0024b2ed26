"""Runs on a real Ray cluster: nodes that die, that do not fit, and those who have no token."""

import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.worker.recorder import CHECKPOINT
from engine.worker.work_queue import DIED
from storage import RunRecord, Store
from tests.ray.conftest import CPUS, Dispatch
from tests.support.ray_nodes import HEAD, ROOT, RayNodes
from tests.worker.engines import PATIENCE_S, eventually
from tests.worker.samples import compute, queue, rows

pytestmark = [pytest.mark.ray, pytest.mark.postgres, pytest.mark.timeout(3 * PATIENCE_S)]
LONG = {"training__rounds": 300, "training__participation": 1.0, "checkpoint_s": 0.2}
CONNECT = "from engine.worker.ray_cluster import RayCluster; print(len(RayCluster('{address}').nodes()), 'nodes')"


def node_of(nodes: RayNodes, run: RunRecord) -> int | None:
    """The node that computes a run."""
    pid = int(run.worker.rpartition(":")[2]) if run.worker else None
    return next((number for number in CPUS if pid in nodes.processes(number)), None)


def computing(nodes: RayNodes, store: Store) -> dict[int, RunRecord]:
    """The running runs that have a checkpoint, by node."""
    running = [r for r in store.queue.runs(statuses=["running"]) if store.artifacts.latest(r.id, CHECKPOINT)]
    return {node: run for run in running if (node := node_of(nodes, run)) is not None}


def end_of_all(store: Store) -> list[RunRecord]:
    """Waits until all runs are done."""
    eventually(lambda: not any(run.is_active for run in store.queue.runs()))
    runs = store.queue.runs(newest_first=False)
    assert {run.status for run in runs} == {"done"}, [run.error for run in runs]
    return runs


def assert_equal_undisturbed(store: Store, runs: list[RunRecord]) -> None:
    """Computes each run again, on the cluster, and compares all rows."""
    twins = [run.id for run in store.queue.rerun([run.id for run in runs])]
    end_of_all(store)
    for run, twin in zip(runs, map(store.queue.get, twins), strict=True):
        assert twin.epoch == 1
        assert rows(store, run.id) == rows(store, twin.id)
        assert run.summary == twin.summary


def messages(store: Store, kind: str) -> list[str]:
    return [event.message for event in store.events.list() if event.kind == kind]


def test_all_nodes_compute_and_are_listed(nodes: RayNodes, store: Store, dispatch: Dispatch):
    undisturbed = compute(store)
    endless = queue(store, seeds=[1, 2, 3], **LONG | {"training__rounds": 100_000})
    dispatcher = dispatch()
    eventually(lambda: set(computing(nodes, store)) == set(CPUS))
    eventually(lambda: [(m.slots, m.running) for m in store.engines.list()] == [(1, 1)] * 3)
    store.queue.request(endless, "cancel")
    (twin,) = store.queue.rerun([undisturbed.id])
    eventually(lambda: not any(run.is_active for run in store.queue.runs()))
    assert store.queue.counts() == {"cancelled": 3, "done": 2}
    assert rows(store, twin.id) == rows(store, undisturbed.id)
    dispatcher.terminate()
    assert dispatcher.wait() == 0
    assert store.engines.list() == []


def test_a_run_of_a_dead_node_resumes_on_another(nodes: RayNodes, store: Store, dispatch: Dispatch):
    queue(store, seeds=[0, 1], **LONG)
    dispatch()
    victim, run = eventually(lambda: [(n, r) for n, r in computing(nodes, store).items() if n != HEAD])[0]
    nodes.kill(victim)
    try:
        runs = end_of_all(store)
    finally:
        nodes.start(victim)
        nodes.wait(victim)
    assert [found.epoch for found in runs if found.id == run.id] == [2]
    (died,) = messages(store, DIED)
    assert "left the cluster or stopped responding; its last checkpoint is of round" in died
    assert_equal_undisturbed(store, runs)


def test_the_next_dispatcher_resumes_the_runs_of_a_killed_one(nodes: RayNodes, store: Store, dispatch: Dispatch):
    queue(store, seeds=[0, 1], **LONG)
    first = dispatch()
    workers = [run.worker for run in eventually(lambda: list(computing(nodes, store).values()))]
    first.kill()
    first.wait()
    pids = {int(worker.rpartition(":")[2]) for worker in workers}
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    dispatch()
    runs = end_of_all(store)
    assert max(run.epoch for run in runs) == 2
    assert messages(store, DIED) == []
    assert_equal_undisturbed(store, runs)


@pytest.mark.parametrize("token", ["none", "another"])
def test_a_driver_without_the_token_is_refused(nodes: RayNodes, token: str, tmp_path: Path):
    environment = nodes.environment | {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if token == "none":
        del environment["RAY_AUTH_TOKEN"]
    command = [sys.executable, "-c", CONNECT.format(address=nodes.address)]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == 1
    assert "ClusterUnavailable: no Ray cluster at RAY_ADDRESS=127.0.0.1:6379 lets this machine in" in refused.stderr
    accepted = subprocess.run(command, env=nodes.environment, capture_output=True, text=True, cwd=tmp_path)
    assert accepted.stdout == "3 nodes\n"


def test_a_node_with_another_version_computes_nothing(
    nodes: RayNodes, store: Store, dispatch: Dispatch, tmp_path: Path
):
    other = tmp_path / "other"
    for folder in ("engine", "storage"):
        shutil.copytree(ROOT / folder, other / folder)
    (other / "engine" / "version.py").write_text('CODE_VERSION = "0.0.9"\n')
    nodes.start(4, cpus=2, PYTHONPATH=str(other))
    try:
        nodes.wait(4)
        queue(store, seeds=[0, 1, 2, 3], **LONG)
        dispatch()
        problem = "it has Fedscape 0.0.9, the dispatcher has 0.1.0"
        eventually(lambda: problem in [machine.problem for machine in store.engines.list()])
        runs = end_of_all(store)
    finally:
        nodes.kill(4)
    assert {run.epoch for run in runs} == {1}
    assert messages(store, DIED) == []


def test_a_node_that_does_not_see_the_folders_returns_its_runs(
    nodes: RayNodes, store: Store, dispatch: Dispatch, tmp_path: Path
):
    artifacts = store.artifacts.folder
    artifacts.mkdir(parents=True, exist_ok=True)
    hidden = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{artifacts}"; exec "$@"', "sh")
    nodes.start(4, cpus=2, before=hidden)
    try:
        nodes.wait(4)
        for number in (2, 3):
            nodes.kill(number)
        queue(store, seeds=[0, 1, 2], **LONG)
        dispatch()
        eventually(lambda: any("does not see ARTIFACTS_DIR" in machine.problem for machine in store.engines.list()))
        runs = end_of_all(store)
    finally:
        nodes.kill(4)
        for number in (2, 3):
            nodes.start(number)
            nodes.wait(number)
    assert messages(store, DIED) == []
    assert_equal_undisturbed(store, runs)
