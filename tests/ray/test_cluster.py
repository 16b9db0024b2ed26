"""Runs on a real Ray cluster: nodes that die, that do not fit, and those who have no token.

Runs that must last until something is killed are endless, and cancelled afterwards: a fast machine ends no test early.
"""

import secrets
import shutil
import signal
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from engine.worker.recorder import CHECKPOINT
from engine.worker.work_queue import DIED, REFUSED
from storage import RunRecord, Store
from tests.ray.conftest import CPUS, Dispatch
from tests.support.endless import ENDLESS, cancel_all, differences_of_endless, resumed
from tests.support.machines import Machine
from tests.support.ray_nodes import HEAD, PART, ROOT, RayNodes
from tests.worker.engines import PATIENCE_S, eventually
from tests.worker.samples import compute, queue, rows

pytestmark = [pytest.mark.ray, pytest.mark.postgres, pytest.mark.timeout(3 * PATIENCE_S)]
CONNECT = """
from engine.worker.cluster import ClusterUnavailable
from engine.worker.ray_cluster import RayCluster
try:
    print(len(RayCluster('{address}').nodes()), 'nodes')
except ClusterUnavailable as error:
    print(error)
"""


def assert_equal_undisturbed(store: Store, runs: Collection[RunRecord]) -> None:
    assert differences_of_endless(store, runs) == []


def machine_of(nodes: RayNodes, run: RunRecord) -> Machine:
    host = (run.worker or "").partition(":")[0]
    return next(machine for machine in nodes.machines.values() if machine.host == host)


def computing(nodes: RayNodes, store: Store) -> dict[int, RunRecord]:
    """The running runs that have a checkpoint, by node."""
    running = [r for r in store.queue.runs(statuses=["running"]) if store.artifacts.latest(r.id, CHECKPOINT)]
    return {machine_of(nodes, run).number: run for run in running if run.worker}


def messages(store: Store, kind: str) -> list[str]:
    return [event.message for event in store.events.list() if event.kind == kind]


def test_all_nodes_compute_and_are_listed(nodes: RayNodes, store: Store, dispatch: Dispatch):
    undisturbed = compute(store)
    endless = queue(store, seeds=[1, 2, 3], **ENDLESS)
    dispatcher = dispatch()
    eventually(lambda: set(computing(nodes, store)) == set(CPUS))
    eventually(lambda: [(m.slots, m.running) for m in store.engines.list()] == [(1, 1)] * 3)
    assert {m.host for m in store.engines.list()} == {nodes.machines[number].host for number in CPUS}
    store.queue.request(endless, "cancel")
    (twin,) = store.queue.rerun([undisturbed.id])
    eventually(lambda: not any(run.is_active for run in store.queue.runs()))
    assert store.queue.counts() == {"cancelled": 3, "done": 2}
    assert rows(store, twin.id) == rows(store, undisturbed.id)
    assert store.queue.get(twin.id).summary == undisturbed.summary
    dispatcher.send_signal(signal.SIGTERM)
    assert dispatcher.wait(PATIENCE_S) == 0
    assert store.engines.list() == []


def test_a_run_of_a_dead_node_resumes_on_another(nodes: RayNodes, store: Store, dispatch: Dispatch):
    queue(store, seeds=[0, 1], **ENDLESS)
    dispatch()
    victim, run = eventually(lambda: [(n, r) for n, r in computing(nodes, store).items() if n != HEAD])[0]
    nodes.kill(victim)
    try:
        found = resumed(store, [run.id])
        assert machine_of(nodes, found[0]).number != victim
    finally:
        nodes.restart(victim)
    (died,) = messages(store, DIED)
    assert f"node{victim} left the cluster or stopped responding; its last checkpoint is of round" in died
    assert_equal_undisturbed(store, found)


def test_of_two_dispatchers_on_two_nodes_one_computes_and_the_other_takes_over(
    nodes: RayNodes, store: Store, dispatch: Dispatch
):
    ids = queue(store, seeds=[0, 1], **ENDLESS)
    first = dispatch(2)
    eventually(store.dispatcher_is_running)
    second = dispatch(3)
    runs = eventually(lambda: found if len(found := computing(nodes, store)) == len(ids) else {}).values()
    assert second.poll() is None
    workers = [(machine_of(nodes, run), int(str(run.worker).partition(":")[2])) for run in runs]
    first.kill()
    eventually(lambda: not any(pid in machine.processes(PART) for machine, pid in workers))
    found = resumed(store, ids)
    assert {run.epoch for run in found} == {2}
    assert messages(store, DIED) == []
    assert_equal_undisturbed(store, found)
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 0


def test_the_dispatcher_outlives_the_head(nodes: RayNodes, store: Store, dispatch: Dispatch):
    ids = queue(store, seeds=[0, 1], **ENDLESS)
    dispatcher = dispatch(2)
    eventually(lambda: len(computing(nodes, store)) == len(ids))
    nodes.kill(HEAD)
    eventually(lambda: [machine.is_outage for machine in store.engines.list()] == [True])
    (outage,) = store.engines.list()
    assert outage.problem.startswith(f"Can't reach the Ray cluster at {nodes.address}: ")
    eventually(lambda: {run.status for run in store.queue.runs()} == {"queued"})
    assert store.queue.counts() == {"queued": len(ids)}
    for number in (2, 3):
        nodes.kill(number, PART)
    nodes.restart(HEAD, 2, 3)
    found = resumed(store, ids)
    assert dispatcher.poll() is None
    eventually(lambda: not any(machine.is_outage for machine in store.engines.list()))
    assert messages(store, DIED) == []
    assert all("returned to the queue: Can't reach the Ray cluster" in text for text in messages(store, REFUSED))
    assert_equal_undisturbed(store, found)


def test_the_dispatcher_outlives_ray_on_its_machine(nodes: RayNodes, store: Store, dispatch: Dispatch):
    ids = queue(store, seeds=[0, 1], **ENDLESS)
    dispatcher = dispatch(2)
    eventually(lambda: len(computing(nodes, store)) == len(ids))
    nodes.kill(2, PART)
    nodes.restart(2)
    found = resumed(store, ids)
    assert dispatcher.poll() is None
    assert_equal_undisturbed(store, found)


@pytest.mark.parametrize("token", ["none", "another"])
def test_a_driver_without_the_token_is_refused(nodes: RayNodes, token: str, tmp_path: Path):
    environment = nodes.environment | {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if token == "none":
        del environment["RAY_AUTH_TOKEN"]
    command = [sys.executable, "-c", CONNECT.format(address=nodes.address)]
    printed = {}
    for name, given in (("refused", environment), ("accepted", nodes.environment)):
        with (tmp_path / name).open("wb") as file:
            assert nodes.machines[HEAD].start(command, given, cwd=tmp_path, stdout=file).wait(PATIENCE_S) == 0
        printed[name] = (tmp_path / name).read_text()
    assert printed["refused"].startswith(f"Can't reach the Ray cluster at {nodes.address}: ")
    assert printed["accepted"] == "3 nodes\n"


def test_nodes_that_do_not_fit_compute_nothing(nodes: RayNodes, store: Store, dispatch: Dispatch, tmp_path: Path):
    other = tmp_path / "other"
    for folder in ("engine", "storage"):
        shutil.copytree(ROOT / folder, other / folder)
    (other / "engine" / "version.py").write_text('CODE_VERSION = "0.0.9"\n')
    artifacts = store.artifacts.folder
    artifacts.mkdir(parents=True, exist_ok=True)
    hidden = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{artifacts}"; exec "$@"', "sh")
    try:
        nodes.start(4, PYTHONPATH=str(other))
        nodes.wait(4)
        nodes.start(5, before=hidden)
        nodes.wait(5)
        queue(store, seeds=[0, 1, 2, 3, 4], **ENDLESS)  # as many as there are CPUs
        dispatch()
        problems = {
            "node4": "it has Fedscape 0.0.9, the dispatcher has 0.1.0",
            "node5": f"it does not see the dispatcher's ARTIFACTS_DIR ({artifacts}): mount the same folder there",
        }
        seen: dict[str, str] = {}  # of each, at any time: a node is tried again after a minute

        def have_refused() -> bool:
            seen.update({m.host: m.problem for m in store.engines.list() if m.problem})
            return problems.items() <= seen.items()

        eventually(have_refused)
        eventually(lambda: set(computing(nodes, store)) == set(CPUS))
        cancel_all(store)
    finally:
        for number in (4, 5):
            nodes.kill(number)
    assert messages(store, DIED) == []
