"""Runs tickets on the nodes of a cluster. Nodes may join, leave and die at any time.

A worker is a process on a node. It is started when a ticket needs it, gets tickets one after another, and is ended when
idle, so that nodes can leave. Before its first ticket it checks that it fits the dispatcher; a node whose worker
does not fit gets no work for a while.
"""

import logging
import math
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.environment import whole_number
from engine.core.paths import PLUGINS, plugin_folders
from engine.worker.cluster import (
    Call,
    Cluster,
    ClusterLost,
    ClusterUnavailable,
    Greeting,
    Handle,
    Node,
    Share,
    Unreachable,
    WorkerLost,
)
from engine.worker.executor import AnalysisTicket, Ended, Machine, Ticket, Work
from engine.worker.heartbeat import HeartbeatCounts
from engine.worker.local_executor import TIMEOUT_S
from engine.worker.program import program
from engine.worker.remote_worker import Orders
from engine.worker.shared_folders import mark
from engine.worker.slots import RUNS_PER_GPU
from engine.worker.watchdog import Watchdog

CHECK_S = 1.0  # how often nodes and heartbeats are checked
RECONNECT_S = 5.0  # between tries to connect, each of which starts a process
TRIES = 3  # to connect, before another dispatcher may try
IDLE_S = 60.0  # after which an idle worker is ended
REFUSED_S = 60.0  # after which a node whose worker did not fit is tried again
START_PAUSE_S = 1.0  # after a worker that did not start
CLOSE_S = 5.0
AHEAD = 4  # workers asked for beyond the slots while runs wait, which an autoscaler sees
GPU_DIGITS = 4  # of a share, as Ray counts them
FORWARDED = "FEDSCAPE_"  # prefix of the dispatcher's settings that its workers get

NO_HEARTBEAT = HeartbeatCounts(0, 0)

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Worker:
    """A worker as seen by the dispatcher: starting until ``node`` is known, then idle or busy."""

    handle: Handle
    call: Call | None  # what it does now: its greeting, or a ticket
    is_extra: bool  # for analyses, in addition to the slots
    node: str = ""
    host: str = ""
    ticket: Work | None = None
    idle_since: float = 0.0
    counts: HeartbeatCounts = NO_HEARTBEAT
    asked: Call | None = None  # for its heartbeat

    @property
    def is_idle(self) -> bool:
        return bool(self.node) and self.ticket is None


class RayExecutor:
    """Has the slots of all nodes. Once a node with a GPU was seen, all runs need one, so that they can be compared.

    While the cluster cannot be reached there are no slots, and all tickets go back to the queue.
    """

    trains_together = False  # each worker gets one ticket at a time

    def __init__(
        self,
        cluster: Cluster,
        folders: Mapping[str, Path],
        max_slots: int | None = None,
        hung_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        check_s: float = CHECK_S,
        problem: str = "",
    ) -> None:
        """``folders``, by variable, must be visible on all nodes; at most ``max_slots`` slots are used.

        ``hung_s`` as in ``Watchdog``, ``problem`` as in ``Executor``. A thread connects to the cluster.
        """
        self._cluster, self._max_slots, self._clock, self.problem = cluster, max_slots, clock, problem
        self._failures = 0  # to reach the cluster, since it last responded
        self._threads = whole_number("FEDSCAPE_THREADS") or 1
        self._runs_per_gpu = whole_number("FEDSCAPE_RUNS_PER_GPU") or RUNS_PER_GPU
        ahead = whole_number("FEDSCAPE_RAY_AHEAD", minimum=0)
        self._ahead = AHEAD if ahead is None else ahead
        self._watchdog: Watchdog[Work] = Watchdog(hung_s)
        timeout_s = min(TIMEOUT_S, self._watchdog.write_s / 2)
        paths = {variable: str(folder) for variable, folder in folders.items()}
        environment = {name: value for name, value in os.environ.items() if name.startswith(FORWARDED)}
        plugins = os.pathsep.join(str(folder) for folder in plugin_folders() if folder.is_dir())
        environment |= {PLUGINS: plugins} | paths
        self._orders = Orders(environment, program(), paths, mark(folders), timeout_s).to_plain()
        self.on_notice: Callable[[str], None] = lambda notice: None
        self._changing = threading.RLock()
        self._nodes: dict[str, Node] = {}
        self._refused: dict[str, tuple[str, float]] = {}  # node -> why, and until when
        self._uses_gpus = False
        self._waiting: list[Work] = []  # for a worker
        self._workers: list[_Worker] = []
        self._ended: list[Ended] = []
        self._extra_ticket: Work | None = None  # the analysis in addition to the slots
        self._queued = 0
        self._start_at = -math.inf  # after a worker that did not start
        self._is_connected = False
        self._is_closed = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, args=(check_s,), daemon=True, name="watchdog")
        self._supervisor.start()

    @property
    def device(self) -> str:
        """The devices of the nodes, each once."""
        return ", ".join(sorted({node.device for node in self._nodes.values() if node.gpus or not self._uses_gpus}))

    @property
    def has_given_up(self) -> bool:
        return self._failures >= TRIES

    @property
    def slots(self) -> int:
        with self._changing:
            total = sum(self._slots_of(node) for node in self._nodes.values() if node.id not in self._refused)
        return total if self._max_slots is None else min(total, self._max_slots)

    @property
    def free(self) -> int:
        with self._changing:
            return max(0, self.slots - len([ticket for ticket in self._tickets() if ticket != self._extra_ticket]))

    @property
    def free_for_analyses(self) -> int:
        with self._changing:
            return self.free + (self._has_extra and self._extra_ticket is None)

    def submit(self, *tickets: Work) -> None:
        (ticket,) = tickets
        with self._changing:
            if isinstance(ticket, AnalysisTicket):
                if self._has_extra and self._extra_ticket is None:
                    self._extra_ticket = ticket
                self._waiting.insert(0, ticket)  # someone is waiting for it
            else:
                self._waiting.append(ticket)
            self._staff()

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        with self._changing:
            calls = {worker.call: worker for worker in self._workers if worker.call is not None}
            wait_s = 0.0 if self._ended else wait_s
        if calls:
            ready = self._cluster.returned(list(calls), wait_s)
        else:
            ready = []
            self._is_closed.wait(wait_s)
        with self._changing:
            for call in ready:
                if calls[call] in self._workers:  # else it was killed meanwhile
                    self._receive(calls[call])
            self._staff()
            ended, self._ended = self._ended, []
        return ended

    def kill(self, ticket: Work) -> None:
        with self._changing:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            for worker in [worker for worker in self._workers if worker.ticket == ticket]:
                self._drop(worker)
            self._ended = [ended for ended in self._ended if ended.ticket != ticket]
            self._forget(ticket)

    def expect(self, queued: int) -> None:
        with self._changing:
            self._queued = queued

    def machines(self) -> list[Machine]:
        if self.problem:
            host = socket.gethostname()
            return [Machine(f"{host}:{os.getpid()}", host, "", 0, 0, 0, 0, self.problem)]
        with self._changing:
            running = Counter(worker.node for worker in self._workers if isinstance(worker.ticket, Ticket))
            problems = {node: why for node, (why, _) in self._refused.items()}
            return [
                Machine(
                    node.id,
                    node.host,
                    node.device,
                    node.cpus,
                    node.gpus,
                    0 if node.id in problems else self._slots_of(node),
                    running[node.id],
                    problems.get(node.id, ""),
                )
                for node in self._nodes.values()
            ]

    def close(self) -> None:
        self._is_closed.set()
        with self._changing:
            for worker in list(self._workers):
                self._drop(worker)
        self._cluster.close()
        self._supervisor.join(CLOSE_S)

    def check(self, elapsed_s: float) -> None:
        """Detects nodes that joined or left, and workers that hang or are idle. ``elapsed_s``: since the last call."""
        try:
            nodes = self._cluster.nodes()  # without the lock: it may take long
        except ClusterUnavailable as error:
            self._failures += 1
            with self._changing:
                self._lose_cluster(str(error))
            return
        self._see(nodes)
        with self._changing:
            now = self._clock()
            self._refused = {node: found for node, found in self._refused.items() if found[1] > now}
            for worker in [w for w in self._workers if w.is_idle and now - w.idle_since >= IDLE_S]:
                self._drop(worker)
            self._read_heartbeats()
            busy = {worker.ticket: worker for worker in self._workers if worker.ticket is not None}
            counts = {ticket: worker.counts for ticket, worker in busy.items()}
            for ticket, why in self._watchdog.hung(counts, elapsed_s).items():
                self._drop(busy[ticket])
                self._end(ticket, why)
            self._staff()
        self.on_notice(self._watchdog.notice)

    def _supervise(self, check_s: float) -> None:
        checked = time.monotonic()
        while not self._is_closed.wait(max(check_s, RECONNECT_S) if self._failures > 1 else check_s):
            now = time.monotonic()
            self.check(now - checked)
            checked = now

    def _see(self, nodes: Sequence[Node]) -> None:
        with self._changing:
            is_new = not self._is_connected
            self._nodes = {node.id: node for node in nodes}
            self._refused = {node: found for node, found in self._refused.items() if node in self._nodes}
            self._uses_gpus = self._uses_gpus or any(node.gpus for node in nodes)
            self._is_connected, self._failures, self.problem = True, 0, ""
        if is_new:
            log.info("connected to the Ray cluster: %d slots on %s", self.slots, self.device)

    def _lose_cluster(self, why: str) -> None:
        """Returns all tickets to the queue: their workers end with the connection."""
        if self.problem != why and not self._is_closed.is_set():
            log.warning("%s", why)
        self._is_connected, self.problem = False, why
        for worker in list(self._workers):
            self._drop(worker)
            if worker.ticket is not None:
                self._end(worker.ticket, why, is_refused=True)
        self._return_waiting(why)
        self._nodes, self._refused = {}, {}

    def _slots_of(self, node: Node) -> int:
        by_cpus = node.cpus // self._threads
        return min(by_cpus, node.gpus * self._runs_per_gpu) if self._uses_gpus else by_cpus

    @property
    def _has_extra(self) -> bool:
        """Whether there is a worker for analyses in addition to the slots. With GPUs it takes a share of one."""
        return not self._uses_gpus and bool(self._nodes.keys() - self._refused.keys())

    def _tickets(self) -> list[Work]:
        return [*self._waiting, *(worker.ticket for worker in self._workers if worker.ticket is not None)]

    def _staff(self) -> None:
        """Gives waiting tickets to idle workers, and asks for as many workers as are needed."""
        if not self._is_connected:
            return
        for is_extra in (True, False):
            workers = [worker for worker in self._workers if worker.is_extra == is_extra]
            idle = [worker for worker in workers if worker.is_idle]
            tickets = [ticket for ticket in self._waiting if (ticket == self._extra_ticket) == is_extra]
            for worker, ticket in zip(idle, tickets, strict=False):
                self._give(worker, ticket)
            needed = max(0, len(tickets) - len(idle))
            starting = [worker for worker in workers if not worker.node]
            if not is_extra and not self.free:
                needed += max(0, min(self._ahead, self._queued) - max(0, len(idle) - len(tickets)))
            for worker in starting[max(needed, 1 if is_extra else self.slots) :]:
                self._drop(worker)
            if self._clock() >= self._start_at:
                for _ in range(needed - len(starting)):
                    self._start(is_extra)

    def _start(self, is_extra: bool) -> None:
        share = Share(0 if is_extra else self._threads, self._gpu_share if self._uses_gpus and not is_extra else 0.0)
        handle, call = self._cluster.start(share, self._orders, self._refused.keys())
        self._workers.append(_Worker(handle, call, is_extra))

    @property
    def _gpu_share(self) -> float:
        return math.floor(10**GPU_DIGITS / self._runs_per_gpu) / 10**GPU_DIGITS  # rounded down, so that all fit

    def _give(self, worker: _Worker, ticket: Work) -> None:
        self._waiting.remove(ticket)
        worker.ticket, worker.counts = ticket, NO_HEARTBEAT
        worker.call = self._cluster.work(worker.handle, ticket)

    def _receive(self, worker: _Worker) -> None:
        """Handles the result of the worker's call: its greeting, or the end of a ticket."""
        call, worker.call = worker.call, None
        ticket, worker.ticket = worker.ticket, None
        worker.idle_since = self._clock()
        assert call is not None
        try:
            found = self._cluster.result(call)
        except WorkerLost as lost:
            self._lose(worker, ticket, lost)
        else:
            if ticket is None:
                self._greet(worker, Greeting(*found))
            else:
                problem, is_refused = found
                self._end(ticket, f"{worker.host}: {problem}" if is_refused else problem, is_refused)
                if is_refused:
                    self._refuse(worker.node, worker.host, problem)

    def _greet(self, worker: _Worker, greeting: Greeting) -> None:
        worker.node, worker.host = greeting.node, greeting.host
        if greeting.problem:
            self._refuse(greeting.node, greeting.host, greeting.problem)

    def _refuse(self, node: str, host: str, problem: str) -> None:
        """Gives the node no work for a while. Without another node, waiting tickets return to the queue."""
        log.warning("%s gets no work: %s", host, problem)
        self._refused[node] = problem, self._clock() + REFUSED_S
        for worker in [w for w in self._workers if w.ticket is None and w.node in ("", node)]:
            self._drop(worker)  # a worker that has not started yet could start there
        if not self.slots:
            self._return_waiting(f"{host}: {problem}")

    def _return_waiting(self, why: str) -> None:
        """Returns the tickets that have no worker to the queue."""
        for ticket in self._waiting[:]:
            self._waiting.remove(ticket)
            self._end(ticket, why, is_refused=True)

    def _lose(self, worker: _Worker, ticket: Work | None, lost: WorkerLost) -> None:
        if isinstance(lost, ClusterLost):
            worker.ticket = ticket
            self._lose_cluster(str(lost))
            return
        self._drop(worker)
        if ticket is None:
            log.warning("a worker did not start: %s", lost)
            self._start_at = self._clock() + START_PAUSE_S
            return
        if lost.alive:
            self._nodes = {node_id: node for node_id, node in self._nodes.items() if node_id in lost.alive}
        if worker.node not in self._nodes or isinstance(lost, Unreachable):
            self._end(ticket, f"{worker.host} left the cluster or stopped responding")
            if worker.node in self._nodes:  # Ray itself notices later
                self._refuse(worker.node, worker.host, "it stopped responding")
        else:
            self._end(ticket, f"the worker on {worker.host} died: {lost}")

    def _end(self, ticket: Work, problem: str | None, is_refused: bool = False) -> None:
        self._ended.append(Ended(ticket, problem, is_refused))
        self._forget(ticket)

    def _forget(self, ticket: Work) -> None:
        if ticket == self._extra_ticket:
            self._extra_ticket = None

    def _drop(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._cluster.kill(worker.handle)

    def _read_heartbeats(self) -> None:
        for worker in self._workers:
            if worker.ticket is not None and worker.asked is None:
                worker.asked = self._cluster.heartbeat(worker.handle)
        asked = {worker.asked: worker for worker in self._workers if worker.asked is not None}
        for call in self._cluster.returned(list(asked)) if asked else ():
            asked[call].asked = None
            with suppress(WorkerLost):  # its ticket's call says so, too
                asked[call].counts = self._cluster.result(call)
