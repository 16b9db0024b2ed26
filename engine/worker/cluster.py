"""The interface to a cluster that starts workers on its nodes. ``ray_cluster.py`` implements it with Ray."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.errors import FedscapeError
from engine.worker.executor import Work

Handle = Any  # a worker
Call = Hashable  # a call of one of its methods, which may not have returned yet


class ClusterUnavailable(FedscapeError):
    """The cluster does not respond, or there is none. A later try may succeed."""


class WorkerLost(Exception):
    """A call that will not return, since its worker died or cannot be reached. The message says why."""

    def __init__(self, why: str, alive: Collection[str] = ()) -> None:
        """``alive``: the ids of the nodes that were alive when this was noticed."""
        super().__init__(why)
        self.alive = frozenset(alive)


class Unreachable(WorkerLost):
    """The connection to the worker broke. It may have died with its machine, or still run behind a broken network."""


class ClusterLost(WorkerLost):
    """The connection to the cluster was lost, and all workers with it."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster that is alive."""

    id: str
    host: str
    device: str
    cpus: int
    gpus: int


@dataclass(frozen=True)
class Share:
    """The resources of one worker on a node. ``gpu`` is a share of a GPU; 0 means none."""

    cpus: int
    gpu: float = 0.0


@dataclass(frozen=True)
class Greeting:
    """A worker's first answer: where it is, and why it must not get work, or ""."""

    node: str
    host: str
    problem: str


class Cluster(Protocol):
    """Threads may share it. A worker that dies is not started again."""

    def nodes(self) -> list[Node]:
        """The nodes that are alive; may take long. Raises ClusterUnavailable: all workers are lost then."""

    def start(self, share: Share, orders: dict[str, Any], avoid: Collection[str]) -> tuple[Handle, Call]:
        """Starts a worker as soon as a node outside ``avoid`` has room; the call returns its Greeting."""

    def work(self, worker: Handle, ticket: Work) -> Call:
        """Gives a ticket to a worker; the call returns (problem or None, is_refused)."""

    def heartbeat(self, worker: Handle) -> Call:
        """Asks a worker for its HeartbeatCounts, even while it works."""

    def returned(self, calls: Sequence[Call], wait_s: float = 0.0) -> list[Call]:
        """The calls that have returned or failed; waits up to ``wait_s`` for the first one."""

    def result(self, call: Call) -> Any:
        """The return value of a call. Raises WorkerLost."""

    def kill(self, worker: Handle) -> None:
        """Kills a worker at once, or withdraws the request to start it."""

    def close(self) -> None:
        """Kills all workers and leaves the cluster."""


def unreachable(address: str, why: str) -> str:
    """The message of an outage, shown on every page and in the terminal."""
    return f"Can't reach the Ray cluster at {address}: {why}"
