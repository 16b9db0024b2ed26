"""A cluster in a child process. Ray blocks or ends the process that uses it when the head of the cluster dies.

A child that ended, or did not respond in time, is killed, and a new one connects again. Its workers are lost: a cluster
ends the workers of a process that is gone.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from engine.worker.cluster import (
    Call,
    Cluster,
    ClusterLost,
    ClusterUnavailable,
    Handle,
    Node,
    Share,
    WorkerLost,
    unreachable,
)
from engine.worker.executor import Work
from engine.worker.process import exit_with_parent

RESPONSE_S = 30.0  # longer than a busy machine needs; meanwhile workers compute and store
CONNECT_S = 90.0  # longer than Ray waits for the node of this machine
CLOSE_S = 5.0
WAIT_S = 0.1  # how long the child waits for results before it looks for new calls
NODES = -1  # the number of the call of ``nodes``, of which there is one at a time
CONNECTED = -2  # the number of the first message

Connect = Callable[[], Cluster]


class ClusterProcess:
    """Implements ``Cluster``. Workers and calls are numbers. Only ``nodes`` waits for the child, and connects first.

    ``nodes`` raises ClusterUnavailable once after the child was lost, with the reason, and connects at the next call.
    """

    def __init__(
        self, connect: Connect, address: str, response_s: float = RESPONSE_S, connect_s: float = CONNECT_S
    ) -> None:
        """``connect`` is called in the child, so it must be importable there; ``address`` is for messages."""
        self._connect, self._address = connect, address
        self._response_s, self._connect_s = response_s, connect_s
        self._numbers = count()
        self._changed = threading.Condition()
        self._asking = threading.Lock()
        self._child: _Child | None = None
        self._calls: dict[int, int] = {}  # in progress -> its worker
        self._results: dict[int, Any] = {}
        self._why_lost = ""
        self._is_closed = False

    def nodes(self) -> list[Node]:
        with self._asking:
            if self._why_lost:
                why, self._why_lost = self._why_lost, ""
                raise ClusterUnavailable(why)
            child = self._child or self._start()
            child.send("nodes")
            found: list[Node] = self._response(child, NODES, self._response_s)
        return found

    def start(self, share: Share, orders: dict[str, Any], avoid: Collection[str]) -> tuple[Handle, Call]:
        worker = next(self._numbers)
        return worker, self._call(worker, "start", share, orders, list(avoid))

    def work(self, worker: Handle, ticket: Work) -> Call:
        return self._call(worker, "work", ticket)

    def heartbeat(self, worker: Handle) -> Call:
        return self._call(worker, "heartbeat")

    def returned(self, calls: Sequence[Call], wait_s: float = 0.0) -> list[Call]:
        with self._changed:
            self._changed.wait_for(lambda: any(call in self._results for call in calls), wait_s)
            return [call for call in calls if call in self._results]

    def result(self, call: Call) -> Any:
        with self._changed:
            found = self._results.pop(call)  # type: ignore[call-overload]
        if isinstance(found, WorkerLost):
            raise found
        return found

    def kill(self, worker: Handle) -> None:
        with self._changed:
            for call in [call for call, of in self._calls.items() if of == worker]:
                del self._calls[call]
            child = self._child
        if child is not None:
            child.send("kill", worker)

    def close(self) -> None:
        with self._changed:
            self._is_closed, child = True, self._child
        if child is not None:
            child.send("close")
            with self._changed:
                self._changed.wait_for(lambda: self._child is not child, CLOSE_S)
            self._lose(child, self._unreachable("it was closed"))
            child.reader.join(CLOSE_S)
            self._why_lost = ""

    def _call(self, worker: int, name: str, *arguments: Any) -> int:
        call = next(self._numbers)
        with self._changed:
            child = self._child
            if child is None:
                self._results[call] = ClusterLost(self._unreachable("the connection was lost"))
            else:
                self._calls[call] = worker
        if child is not None:
            child.send(name, worker, *arguments, call)
        return call

    def _start(self) -> "_Child":
        with self._changed:
            if self._is_closed:
                raise ClusterUnavailable(self._unreachable("it was closed"))
            self._results.pop(CONNECTED, None)
            self._results.pop(NODES, None)  # of an earlier child
            self._child = child = _Child(self._connect, self._read)
            child.reader.start()
        self._response(child, CONNECTED, self._connect_s)
        return child

    def _response(self, child: "_Child", number: int, limit_s: float) -> Any:
        """Waits for a message. Loses the child and raises ClusterUnavailable without one, or if it is an error."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._results or self._child is not child, limit_s)
            found = self._results.pop(number, None)
            if found is None:
                why, self._why_lost = self._why_lost, ""
                found = ClusterUnavailable(why or self._unreachable(f"it did not respond within {limit_s:g} s"))
        if isinstance(found, ClusterUnavailable):
            self._lose(child, str(found))
            with self._changed:
                self._why_lost = ""  # reported now
            raise found
        return found

    def _read(self, child: "_Child") -> None:
        """Collects what the child sends, until it ends. A thread."""
        with suppress(EOFError, OSError):
            while True:
                number, found = child.receive()
                with self._changed:
                    if child is self._child and (number < 0 or self._calls.pop(number, None) is not None):
                        self._results[number] = found
                        self._changed.notify_all()
        self._lose(child, self._unreachable("the connection was lost"))
        child.close()

    def _lose(self, child: "_Child", why: str) -> None:
        """Ends the child and all calls that have not returned."""
        child.kill()
        with self._changed:
            if child is not self._child:
                return
            self._child, self._why_lost = None, why
            lost = ClusterLost(why)
            self._results |= dict.fromkeys(self._calls, lost)
            self._calls = {}
            self._changed.notify_all()

    def _unreachable(self, why: str) -> str:
        return unreachable(self._address, why)


class _Child:
    """The process, the pipe to it, and a thread for each direction. The reading thread closes everything at the end."""

    def __init__(self, connect: Connect, read: "Callable[[_Child], None]") -> None:
        self.reader = threading.Thread(target=read, args=(self,), daemon=True, name="cluster")
        context = multiprocessing.get_context("spawn")  # a fork would share the threads' locks
        self._connection, child_end = context.Pipe()
        self._messages: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True, name="cluster")
        self._process = context.Process(target=_main, args=(child_end, connect), daemon=True, name="cluster")
        self._process.start()
        child_end.close()  # so that the pipe closes when the process dies
        self._writer.start()

    def send(self, *message: Any) -> None:
        """Returns at once, even if the process does not read."""
        self._messages.put(message)

    def receive(self) -> tuple[int, Any]:
        found: tuple[int, Any] = self._connection.recv()
        return found

    def kill(self) -> None:
        with suppress(ValueError):  # it was closed before
            self._process.kill()

    def close(self) -> None:
        self._process.join()
        self._process.close()
        self._messages.put(None)
        self._writer.join()
        self._connection.close()

    def _write(self) -> None:
        with suppress(OSError):  # the process has ended, which the reader notices
            while (message := self._messages.get()) is not None:
                self._connection.send(message)


def _main(connection: Connection, connect: Connect) -> None:
    """The child: connects, then executes requests in order, and sends what calls return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the dispatcher handles it
    threading.Thread(target=exit_with_parent, daemon=True).start()
    try:
        cluster = connect()
    except ClusterUnavailable as error:
        connection.send((CONNECTED, error))
    else:
        connection.send((CONNECTED, True))
        _Server(cluster, connection).serve()
    os._exit(0)  # without Ray's handlers, which may wait for the cluster


class _Server:
    """Executes requests on the cluster."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        self._cluster, self._connection = cluster, connection
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._workers: dict[int, Handle] = {}
        self._calls: dict[Call, int] = {}  # the cluster's calls in progress -> the dispatcher's number

    def serve(self) -> None:
        threading.Thread(target=self._send_results, daemon=True).start()
        with suppress(EOFError, OSError):  # the dispatcher has ended
            while (message := self._connection.recv())[0] != "close":
                name, *arguments = message
                getattr(self, f"_{name}")(*arguments)
        self._cluster.close()

    def _nodes(self) -> None:
        try:
            found: Any = self._cluster.nodes()
        except ClusterUnavailable as error:
            found = error
        self._send(NODES, found)

    def _start(self, worker: int, share: Share, orders: dict[str, Any], avoid: list[str], number: int) -> None:
        self._workers[worker], call = self._cluster.start(share, orders, avoid)
        self._watch(call, number)

    def _work(self, worker: int, ticket: Work, number: int) -> None:
        self._watch(self._cluster.work(self._workers[worker], ticket), number)

    def _heartbeat(self, worker: int, number: int) -> None:
        self._watch(self._cluster.heartbeat(self._workers[worker]), number)

    def _kill(self, worker: int) -> None:
        if worker in self._workers:
            self._cluster.kill(self._workers.pop(worker))

    def _watch(self, call: Call, number: int) -> None:
        with self._changed:
            self._calls[call] = number
            self._changed.notify_all()

    def _send_results(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls)
                calls = list(self._calls)
            for call in self._cluster.returned(calls, WAIT_S):
                try:
                    found = self._cluster.result(call)
                except WorkerLost as lost:
                    found = lost
                with self._changed:
                    number = self._calls.pop(call)
                self._send(number, found)

    def _send(self, number: int, found: Any) -> None:
        with self._sending, suppress(OSError):  # the dispatcher has ended
            self._connection.send((number, found))
