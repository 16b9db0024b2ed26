"""The child process that uses a cluster, with the faults that Ray has."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from engine.worker import Ticket, cluster_process
from engine.worker.cluster import ClusterLost, ClusterUnavailable, Share, WorkerLost
from engine.worker.cluster_process import ClusterProcess
from engine.worker.heartbeat import HeartbeatCounts
from tests.worker.engines import PATIENCE_S, ROOT, eventually
from tests.worker.file_cluster import END, HANG, HANG_ON_CLOSE, NODE, REFUSE, FileCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_S)]
Make = Callable[..., ClusterProcess]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ClusterProcess] = []

    def make(**limits: float) -> ClusterProcess:
        limits = {"response_s": PATIENCE_S, "connect_s": PATIENCE_S} | limits
        made.append(ClusterProcess(partial(FileCluster, tmp_path), "head:6379", **limits))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


def ticket(run_id: int) -> Ticket:
    return Ticket(run_id, 1, "postgresql://db/x", Path("/x"))


def child(folder: Path) -> int:
    return int((folder / "pid").read_text())


def children() -> list[multiprocessing.process.BaseProcess]:
    return [process for process in multiprocessing.active_children() if process.name == "cluster"]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def reconnect(cluster: ClusterProcess) -> None:
    def has_nodes() -> bool:
        try:
            return cluster.nodes() == [NODE]
        except ClusterUnavailable:
            return False

    eventually(has_nodes)


def test_calls_return_what_the_cluster_returns_unless_their_worker_was_killed(make, tmp_path):
    cluster = make()
    assert cluster.nodes() == [NODE]
    worker, greeting = cluster.start(Share(3), {}, [])
    assert cluster.returned([greeting], PATIENCE_S) == [greeting]
    assert cluster.result(greeting) == ("one", "lab1", "3 CPUs")
    first, second, beat = cluster.work(worker, ticket(1)), cluster.work(worker, ticket(2)), cluster.heartbeat(worker)
    assert cluster.returned([first, beat], PATIENCE_S) == [beat]
    assert cluster.result(beat) == HeartbeatCounts(3, 2)
    (tmp_path / "run 2").touch()
    assert cluster.returned([first, second], PATIENCE_S) == [second]
    assert cluster.result(second) == (None, False)
    assert cluster.returned([first]) == []

    other, _ = cluster.start(Share(1), {}, [])
    call = cluster.work(other, ticket(3))
    cluster.kill(worker)
    (tmp_path / "run 1").touch()
    (tmp_path / "run 3").write_text("out of memory")
    assert cluster.returned([call], PATIENCE_S) == [call]
    cluster.nodes()
    assert cluster.returned([first, call]) == [call]
    with pytest.raises(WorkerLost, match="out of memory") as lost:
        cluster.result(call)
    assert lost.value.alive == {"one"}


def test_a_child_that_is_killed_or_ends_loses_all_calls_and_is_replaced(make, tmp_path):
    cluster = make()
    cluster.nodes()
    worker, _ = cluster.start(Share(1), {}, [])
    calls = [cluster.work(worker, ticket(number)) for number in (1, 2)]
    first = child(tmp_path)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: cluster.returned(calls) == calls)
    for call in calls:
        with pytest.raises(ClusterLost, match="Can't reach the Ray cluster at head:6379: the connection was lost"):
            cluster.result(call)
    late = cluster.work(worker, ticket(3))
    with pytest.raises(ClusterLost):
        cluster.result(late)
    with pytest.raises(ClusterUnavailable, match="the connection was lost"):
        cluster.nodes()
    assert cluster.nodes() == [NODE]
    assert child(tmp_path) != first
    cluster.kill(worker)  # unknown to the new child
    assert cluster.nodes() == [NODE]

    (tmp_path / END).touch()  # during a request
    with pytest.raises(ClusterUnavailable, match="the connection was lost"):
        cluster.nodes()
    (tmp_path / END).unlink()
    assert cluster.nodes() == [NODE]


def test_a_child_that_is_stopped_or_does_not_respond_is_killed_and_replaced(make, tmp_path):
    cluster = make(response_s=1.0)
    reconnect(cluster)
    worker, _ = cluster.start(Share(1), {}, [])
    call = cluster.work(worker, ticket(1))
    stopped = child(tmp_path)
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(ClusterUnavailable):
        cluster.nodes()
    assert cluster.returned([call]) == [call]
    eventually(lambda: not is_running(stopped))
    reconnect(cluster)

    hanging = child(tmp_path)
    (tmp_path / HANG).touch()
    with pytest.raises(ClusterUnavailable, match="it did not respond within 1 s"):
        cluster.nodes()
    eventually(lambda: not is_running(hanging))
    (tmp_path / HANG).unlink()
    reconnect(cluster)


def test_no_call_waits_for_a_stopped_child(make, tmp_path):
    cluster = make()
    cluster.nodes()
    os.kill(child(tmp_path), signal.SIGSTOP)
    calls = [cluster.start(Share(1), {"environment": 10_000 * "x"}, [])[1] for _ in range(300)]
    assert cluster.returned(calls) == []
    os.kill(child(tmp_path), signal.SIGKILL)
    assert cluster.returned(calls, PATIENCE_S) == calls


def test_a_cluster_that_refuses_the_connection_says_why(make, tmp_path):
    cluster = make()
    (tmp_path / REFUSE).touch()
    with pytest.raises(ClusterUnavailable, match="wrong token"):
        cluster.nodes()
    (tmp_path / REFUSE).unlink()
    assert cluster.nodes() == [NODE]


def test_closing_ends_the_child_and_frees_what_it_used(make, tmp_path):
    cluster = make()
    cluster.nodes()
    handles = len(os.listdir("/proc/self/fd"))
    cluster.close()
    assert not is_running(child(tmp_path))
    assert children() == []
    assert len(os.listdir("/proc/self/fd")) < handles
    with pytest.raises(ClusterUnavailable, match="it was closed"):
        cluster.nodes()


def test_closing_does_not_wait_for_a_cluster_that_hangs(make, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster_process, "CLOSE_S", 0.1)
    cluster, raised = make(), threading.Event()
    cluster.nodes()
    (tmp_path / HANG).touch()
    (tmp_path / HANG_ON_CLOSE).touch()

    def ask() -> None:
        with pytest.raises(ClusterUnavailable):
            cluster.nodes()
        raised.set()

    asking = threading.Thread(target=ask)
    asking.start()
    cluster.close()
    asking.join()
    assert raised.is_set()
    assert not is_running(child(tmp_path))


USE = """
import sys, time
from functools import partial
from pathlib import Path
from engine.worker.cluster_process import ClusterProcess
from tests.worker.file_cluster import FileCluster
cluster = ClusterProcess(partial(FileCluster, Path(sys.argv[1])), "head:6379")
cluster.nodes()
print("connected", flush=True)
time.sleep(1000)
"""


def test_the_child_ends_with_a_killed_dispatcher(tmp_path):
    (tmp_path / HANG_ON_CLOSE).touch()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", USE, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as dispatcher:
        assert dispatcher.stdout is not None
        assert dispatcher.stdout.readline() == "connected\n"
        pid = child(tmp_path)
        assert is_running(pid)
        dispatcher.kill()
    eventually(lambda: not is_running(pid))
