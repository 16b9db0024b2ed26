"""The executor for clusters, on a cluster without machines; tests/ray has real ones."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import InvalidConfig
from engine.worker import AnalysisTicket, Ticket, remote_worker
from engine.worker.cluster import ClusterLost, Node, Share, Unreachable
from engine.worker.program import program
from engine.worker.ray_executor import IDLE_S, REFUSED_S, START_PAUSE_S, TRIES, RayExecutor
from engine.worker.shared_folders import MARKER, mark, unseen
from tests.worker.fake_cluster import OUTAGE, FakeCluster, FakeWorker
from tests.worker.fakes import Clock

NEVER_S = 1e6  # between checks by the thread: the tests check themselves
ONE, TWO = Node("one", "lab1", "cpu", cpus=1, gpus=0), Node("two", "lab2", "cpu", cpus=2, gpus=0)
Make = Callable[..., RayExecutor]


@pytest.fixture(autouse=True)
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSCAPE_THREADS", raising=False)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(ONE, TWO)


@pytest.fixture
def make(cluster: FakeCluster, clock: Clock, tmp_path: Path) -> Iterator[Make]:
    made: list[RayExecutor] = []

    def make(is_connected: bool = True, **options: Any) -> RayExecutor:
        folders = {"ARTIFACTS_DIR": tmp_path / "artifacts", "DATA_DIR": tmp_path / "data"}
        made.append(RayExecutor(cluster, folders, clock=clock, check_s=NEVER_S, **options))
        if is_connected:
            made[-1].check(0.0)
        return made[-1]

    yield make
    for executor in made:
        executor.close()


def ticket(number: int, folder: Path) -> Ticket:
    return Ticket(number, 1, "postgresql://db/x", folder)


def analysis(number: int, folder: Path) -> AnalysisTicket:
    return AnalysisTicket(number, 1, 1, 1, "postgresql://db/x", folder)


def ready(cluster: FakeCluster, executor: RayExecutor, *nodes: str) -> list[FakeWorker]:
    """Starts the workers that were asked for, one on each of ``nodes``."""
    found = cluster.starting[: len(nodes)]
    for worker, node in zip(found, nodes, strict=True):
        cluster.greet(worker, node)
    executor.poll()
    return found


def test_slots_are_those_of_all_nodes_and_change_with_them(cluster, make):
    executor = make()
    assert (executor.slots, executor.free, executor.free_for_analyses) == (3, 3, 4)
    cluster.alive.append(Node("three", "lab3", "cpu", cpus=4, gpus=0))
    executor.check(1.0)
    assert executor.slots == 7
    cluster.alive = [ONE]
    executor.check(1.0)
    assert executor.slots == 1


def test_threads_are_cpus_of_a_slot(cluster, make, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSCAPE_THREADS", "2")
    executor = make()
    assert executor.slots == 1
    executor.submit(ticket(1, tmp_path))
    assert cluster.starting[0].share == Share(cpus=2)


def test_runs_share_a_gpu_and_none_is_computed_without_one(cluster, make, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSCAPE_RUNS_PER_GPU", "3")
    cluster.alive.append(Node("gpus", "lab3", "H100", cpus=16, gpus=2))
    executor = make()
    assert (executor.slots, executor.device, executor.free_for_analyses) == (6, "H100", 6)
    executor.submit(ticket(1, tmp_path))
    executor.submit(analysis(1, tmp_path))
    assert [worker.share for worker in cluster.starting] == [Share(1, 0.3333)] * 2  # three fit on one
    cluster.alive = [ONE, TWO]
    executor.check(1.0)
    assert executor.slots == 0


def test_a_worker_gets_one_ticket_after_another(cluster, make, tmp_path):
    executor, first, second = make(), ticket(1, tmp_path), ticket(2, tmp_path)
    executor.submit(first)
    (worker,) = ready(cluster, executor, "one")
    cluster.finish(worker)
    assert [(ended.ticket, ended.problem) for ended in executor.poll()] == [(first, None)]
    executor.submit(second)
    assert worker.tickets == [first, second]
    assert cluster.workers == [worker]


def test_the_first_worker_that_is_ready_takes_the_first_ticket_that_waits(cluster, make, tmp_path):
    executor, tickets = make(), [ticket(number, tmp_path) for number in (1, 2)]
    for one in tickets:
        executor.submit(one)
    slow, fast = cluster.starting
    cluster.greet(fast, "two")
    executor.poll()
    cluster.finish(fast)
    executor.poll()
    assert fast.tickets == tickets
    assert slow.tickets == []


def test_a_dead_worker_ends_its_ticket_with_the_host(cluster, make, tmp_path):
    executor = make()
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "one")
    cluster.lose(worker, "exit code 1")
    (ended,) = executor.poll()
    assert (ended.problem, ended.is_refused) == ("the worker on host of one died: exit code 1", False)


def test_a_dead_node_is_named_and_gives_no_slots(cluster, make, tmp_path):
    executor = make()
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "two")
    cluster.alive = [ONE]
    cluster.lose(worker)
    (ended,) = executor.poll()
    assert ended.problem == "host of two left the cluster or stopped responding"
    assert executor.slots == 1


def test_a_node_out_of_reach_is_avoided_before_the_cluster_notices(cluster, make, tmp_path):
    executor, again = make(), ticket(2, tmp_path)
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "two")
    cluster.lose(worker, error=Unreachable)
    (ended,) = executor.poll()
    assert ended.problem == "host of two left the cluster or stopped responding"
    assert not ended.is_refused
    executor.submit(again)
    assert cluster.starting[0].avoid == {"two"}
    cluster.alive = [ONE]
    executor.check(1.0)
    assert [machine.name for machine in executor.machines()] == ["one"]


def test_a_ticket_outlives_the_worker_that_did_not_start_for_it(cluster, make, clock, tmp_path, caplog):
    executor, waiting = make(), ticket(1, tmp_path)
    executor.submit(waiting)
    cluster.lose(cluster.starting[0])
    cluster.workers[0].is_killed = True
    with caplog.at_level(logging.WARNING):
        assert executor.poll() == []
    assert "a worker did not start: killed" in caplog.text
    assert cluster.starting == []  # not at once, as it may fail again
    clock.now += START_PAUSE_S
    executor.check(1.0)
    (worker,) = ready(cluster, executor, "one")
    assert worker.tickets == [waiting]


def test_a_node_that_does_not_fit_is_avoided_and_tried_again(cluster, make, clock, tmp_path):
    executor, waiting = make(), ticket(1, tmp_path)
    executor.submit(waiting)
    cluster.greet(cluster.starting[0], "two", "it has torch 1.0")
    assert executor.poll() == []
    assert executor.slots == 1
    (worker,) = cluster.starting
    assert worker.avoid == {"two"}
    assert {m.name: (m.slots, m.problem) for m in executor.machines()} == {
        "one": (1, ""),
        "two": (0, "it has torch 1.0"),
    }
    clock.now += REFUSED_S
    executor.check(1.0)
    assert executor.slots == 3


def test_without_a_node_that_fits_tickets_go_back_to_the_queue(cluster, make, tmp_path):
    cluster.alive = [ONE]
    executor, waiting = make(), ticket(1, tmp_path)
    executor.submit(waiting)
    cluster.greet(cluster.starting[0], "one", "it does not see DATA_DIR")
    (ended,) = executor.poll()
    assert (ended.ticket, ended.is_refused) == (waiting, True)
    assert ended.problem == "host of one: it does not see DATA_DIR"
    assert (executor.free, executor.free_for_analyses, cluster.living) == (0, 0, [])


def test_a_ticket_refused_later_goes_back_too(cluster, make, tmp_path):
    executor = make()
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "two")
    cluster.finish(worker, "it does not see ARTIFACTS_DIR", is_refused=True)
    (ended,) = executor.poll()
    assert ended.is_refused
    assert worker.is_killed
    assert executor.slots == 1


def test_a_killed_ticket_is_not_reported(cluster, make, tmp_path):
    executor, running, waiting = make(), ticket(1, tmp_path), ticket(2, tmp_path)
    executor.submit(running)
    (worker,) = ready(cluster, executor, "one")
    executor.submit(waiting)
    executor.kill(running)
    executor.kill(waiting)
    cluster.finish(worker)
    assert worker.is_killed
    assert executor.poll() == []
    assert (executor.free, executor.free_for_analyses) == (3, 4)


def test_a_ticket_that_is_killed_after_it_ended_is_not_reported(cluster, make, tmp_path):
    executor, running = make(), ticket(1, tmp_path)
    executor.submit(running)
    ready(cluster, executor, "one")
    cluster.answers = False
    executor.check(1.0)
    executor.kill(running)
    assert executor.poll() == []


def test_an_analysis_has_a_worker_beside_the_slots(cluster, make, tmp_path):
    executor = make(max_slots=1)
    executor.submit(ticket(1, tmp_path))
    executor.submit(analysis(7, tmp_path))
    assert [worker.share for worker in cluster.starting] == [Share(1), Share(0)]
    assert (executor.free, executor.free_for_analyses) == (0, 0)
    _, extra = ready(cluster, executor, "one", "two")
    cluster.finish(extra)
    executor.poll()
    assert (executor.free, executor.free_for_analyses) == (0, 1)


def test_workers_are_asked_for_ahead_while_runs_wait_so_that_a_cluster_can_grow(cluster, make, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSCAPE_RAY_AHEAD", "2")
    cluster.alive = [ONE]
    executor = make()
    executor.submit(ticket(1, tmp_path))
    ready(cluster, executor, "one")
    executor.expect(50)
    executor.poll()
    assert len(cluster.starting) == 2
    executor.expect(0)
    executor.poll()
    assert len(cluster.starting) <= executor.slots
    cluster.alive = []
    executor.expect(50)
    executor.check(1.0)
    assert len(cluster.starting) == 2  # from none


def test_idle_workers_are_given_up_so_that_nodes_can_leave(cluster, make, clock, tmp_path):
    executor = make()
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "one")
    clock.now += IDLE_S
    executor.check(1.0)
    assert not worker.is_killed  # it works
    cluster.finish(worker)
    executor.poll()
    clock.now += IDLE_S
    executor.check(1.0)
    assert worker.is_killed


def test_a_worker_whose_heartbeat_stops_is_killed(cluster, make, tmp_path):
    executor = make(hung_s=3)
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "one")
    executor.check(1.0)
    worker.answers_heartbeats = False  # stopped, or out of reach
    for _ in range(4):
        executor.check(1.0)
    (ended,) = executor.poll()
    assert "no heartbeat for 3 s" in ended.problem
    assert worker.is_killed


def test_running_runs_are_counted_by_machine(cluster, make, tmp_path):
    executor = make()
    for number in (1, 2, 3):
        executor.submit(ticket(number, tmp_path))
    ready(cluster, executor, "two", "two", "one")
    assert {machine.host: machine.running for machine in executor.machines()} == {"lab1": 1, "lab2": 2}


def test_in_an_outage_all_tickets_go_back_to_the_queue(cluster, make, tmp_path):
    executor, tickets = make(), [*(ticket(number, tmp_path) for number in (1, 2)), analysis(7, tmp_path)]
    for one in tickets:
        executor.submit(one)
    ready(cluster, executor, "one")
    cluster.answers = False
    executor.check(1.0)
    ended = executor.poll()
    assert {one.ticket for one in ended} == set(tickets)
    assert {(one.problem, one.is_refused) for one in ended} == {(OUTAGE, True)}
    assert (executor.slots, executor.free_for_analyses, cluster.living) == (0, 0, [])


def test_an_outage_is_noticed_by_the_calls_that_it_ends(cluster, make, tmp_path):
    executor, waiting = make(), ticket(2, tmp_path)
    executor.submit(ticket(1, tmp_path))
    (worker,) = ready(cluster, executor, "one")
    executor.submit(waiting)
    cluster.lose(worker, OUTAGE, ClusterLost)
    assert [(one.problem, one.is_refused) for one in executor.poll()] == [(OUTAGE, True)] * 2
    assert (executor.slots, executor.problem) == (0, OUTAGE)


def test_an_outage_is_shown_and_logged_once_until_the_cluster_responds_again(cluster, make, caplog, tmp_path):
    executor = make()
    cluster.answers = False
    for _ in range(TRIES):
        assert not executor.has_given_up
        executor.check(1.0)
    assert executor.has_given_up
    (machine,) = executor.machines()
    assert (machine.device, machine.slots, machine.problem) == ("", 0, OUTAGE)
    assert caplog.text.count(OUTAGE) == 1
    cluster.answers = True
    executor.check(1.0)
    assert (executor.problem, executor.has_given_up, executor.slots) == ("", False, 3)
    assert [machine.name for machine in executor.machines()] == ["one", "two"]
    executor.submit(ticket(1, tmp_path))
    assert len(cluster.starting) == 1


def test_the_outage_of_an_earlier_executor_is_shown_until_the_cluster_responds(make, cluster):
    executor = make(is_connected=False, problem="no head")
    executor.expect(50)
    assert executor.poll() == []
    assert cluster.workers == []  # not before there is a connection
    assert [machine.problem for machine in executor.machines()] == ["no head"]
    executor.check(1.0)
    assert executor.problem == ""


def test_closing_kills_all_workers(cluster, make, tmp_path):
    executor = make()
    with closing(executor):
        executor.submit(ticket(1, tmp_path))
        executor.submit(ticket(2, tmp_path))
        ready(cluster, executor, "one")
    assert cluster.living == []
    assert cluster.is_closed


# What a worker checks before it accepts tickets.


@pytest.fixture
def orders(make: Make, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Those of a dispatcher on this machine."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    make().submit(ticket(1, tmp_path))
    return cluster.starting[0].orders


def test_a_worker_of_the_same_program_that_sees_the_folders_accepts(orders):
    assert remote_worker.prepare(orders, 1, False) == ""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Fedscape", "it has Fedscape {ours}, the dispatcher has other"),
        ("torch", "it has torch {ours}, the dispatcher has other"),
        ("code", "its code of Fedscape or of plugins ({ours}) differs from the dispatcher's (other)"),
    ],
)
def test_a_worker_of_another_version_refuses(orders, name, problem):
    theirs = {**orders, "program": program() | {name: "other"}}
    assert remote_worker.prepare(theirs, 1, False) == problem.format(ours=program()[name])


def test_the_code_of_plugins_belongs_to_the_program(tmp_path, monkeypatch):
    before = program()["code"]
    (tmp_path / "algorithms").mkdir()
    (tmp_path / "algorithms" / "mine.py").write_text("x = 1\n")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    assert program()["code"] != before


def test_relative_folders_of_plugins_are_the_same_in_a_worker_that_runs_elsewhere(make, cluster, monkeypatch, tmp_path):
    for name in ("here/plugins/algorithms", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "here" / "plugins" / "algorithms" / "mine.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", os.pathsep.join(["plugins", "none"]))
    make().submit(ticket(1, tmp_path))
    orders = cluster.starting[0].orders
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", orders["environment"]["FEDSCAPE_PLUGINS"])
    assert remote_worker.prepare(orders, 1, False) == ""
    (tmp_path / "here" / "plugins").rename(tmp_path / "moved")
    assert remote_worker.prepare(orders, 1, False) == (
        f"it does not see the dispatcher's FEDSCAPE_PLUGINS ({tmp_path / 'here' / 'plugins'}): copy or mount the same "
        "folder there"
    )


@pytest.mark.parametrize("name", ["artifacts", "data"])
def test_a_worker_that_does_not_see_a_folder_refuses(orders, tmp_path, name):
    (tmp_path / name / MARKER).unlink()
    variable = {"artifacts": "ARTIFACTS_DIR", "data": "DATA_DIR"}[name]
    problem = f"it does not see the dispatcher's {variable} ({tmp_path / name}): mount the same folder there"
    assert remote_worker.prepare(orders, 1, False) == problem
    assert remote_worker.work(ticket(1, tmp_path), orders, 1, False) == (problem, True)


def test_a_node_without_tokens_is_refused(orders, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert "without RAY_AUTH_MODE=token" in remote_worker.prepare(orders, 1, False)


def test_a_folder_of_the_same_name_is_not_the_same_folder(tmp_path):
    folders = {"DATA_DIR": tmp_path}
    seen = mark(folders)
    assert unseen(folders, seen) == ""
    (tmp_path / MARKER).write_text("another dispatcher's")
    assert "does not see the dispatcher's DATA_DIR" in unseen(folders, seen)


def test_a_folder_that_cannot_be_marked_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidConfig, match="DATA_DIR: cannot write to"):
        mark({"DATA_DIR": tmp_path / "file" / "data"})
