"""A cluster without machines: workers start, answer and die when the test says so."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from engine.worker import Work
from engine.worker.cluster import ClusterUnavailable, Node, Share, WorkerLost
from engine.worker.heartbeat import HeartbeatCounts

OUTAGE = "Can't reach the Ray cluster at head:6379: connection refused"


@dataclass(eq=False)
class FakeWorker:
    share: Share
    orders: dict[str, Any]
    avoid: set[str]
    node: str = ""
    tickets: list[Work] = field(default_factory=list)
    counts: HeartbeatCounts = HeartbeatCounts(1, 0)  # noqa: RUF009  frozen
    answers_heartbeats: bool = True
    is_killed: bool = False


class FakeCluster:
    """Calls are numbers; a call has returned once it is in ``results``."""

    def __init__(self, *nodes: Node) -> None:
        self.alive = list(nodes)
        self.workers: list[FakeWorker] = []
        self.results: dict[int, Any] = {}
        self.answers = True
        self.is_closed = False
        self._calls: dict[FakeWorker, int] = {}  # what each does now
        self._numbers = count()

    def nodes(self) -> list[Node]:
        if not self.answers:
            raise ClusterUnavailable(OUTAGE)
        return list(self.alive)

    def start(self, share: Share, orders: dict[str, Any], avoid: Collection[str]) -> tuple[FakeWorker, int]:
        worker = FakeWorker(share, orders, set(avoid))
        self.workers.append(worker)
        return worker, self._call(worker)

    def work(self, worker: FakeWorker, ticket: Work) -> int:
        worker.tickets.append(ticket)
        return self._call(worker)

    def heartbeat(self, worker: FakeWorker) -> int:
        number = next(self._numbers)
        if worker.answers_heartbeats:
            self.results[number] = worker.counts
        return number

    def returned(self, calls: Sequence[int], wait_s: float = 0.0) -> list[int]:
        return [call for call in calls if call in self.results]

    def result(self, call: int) -> Any:
        found = self.results.pop(call)
        if isinstance(found, WorkerLost):
            raise found
        return found

    def kill(self, worker: FakeWorker) -> None:
        worker.is_killed = True

    def close(self) -> None:
        self.is_closed = True

    # What happens to workers.

    @property
    def living(self) -> list[FakeWorker]:
        return [worker for worker in self.workers if not worker.is_killed]

    @property
    def starting(self) -> list[FakeWorker]:
        return [worker for worker in self.living if not worker.node]

    def greet(self, worker: FakeWorker, node: str, problem: str = "") -> None:
        worker.node = node
        self._return(worker, (node, f"host of {node}", problem))

    def finish(self, worker: FakeWorker, problem: str | None = None, is_refused: bool = False) -> None:
        self._return(worker, (problem, is_refused))

    def lose(self, worker: FakeWorker, why: str = "killed", error: type[WorkerLost] = WorkerLost) -> None:
        self._return(worker, error(why, [node.id for node in self.alive]))

    def _call(self, worker: FakeWorker) -> int:
        self._calls[worker] = next(self._numbers)
        return self._calls[worker]

    def _return(self, worker: FakeWorker, found: Any) -> None:
        self.results[self._calls[worker]] = found
