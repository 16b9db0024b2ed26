"""A cluster in a child process whose faults are files: a test creates them, and the child finds them."""

import os
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from engine.worker import Work
from engine.worker.cluster import ClusterUnavailable, Node, Share, WorkerLost
from engine.worker.heartbeat import HeartbeatCounts

REFUSE, HANG, END, HANG_ON_CLOSE = "refuse", "hang", "end", "hang on close"
NODE = Node("one", "lab1", "cpu", cpus=2, gpus=0)


class FileCluster:
    """Workers greet at once; a ticket is finished when the file ``run 7`` contains its result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pid").write_text(str(os.getpid()))
        if (folder / REFUSE).exists():
            raise ClusterUnavailable("wrong token")

    def nodes(self) -> list[Node]:
        if (self._folder / END).exists():
            os._exit(1)
        while (self._folder / HANG).exists():
            time.sleep(0.01)
        return [NODE]

    def start(self, share: Share, orders: dict[str, Any], avoid: Collection[str]) -> tuple[str, Any]:
        return "worker", ("greeting", share.cpus)

    def work(self, worker: str, ticket: Work) -> Any:
        return "ticket", ticket.run_id

    def heartbeat(self, worker: str) -> Any:
        return "heartbeat", threading.get_ident()

    def returned(self, calls: Sequence[Any], wait_s: float = 0.0) -> list[Any]:
        time.sleep(wait_s)
        return [(kind, of) for kind, of in calls if kind != "ticket" or self._file(of).exists()]

    def result(self, call: Any) -> Any:
        kind, of = call
        if kind == "greeting":
            return NODE.id, NODE.host, f"{of} CPUs"
        if kind == "heartbeat":
            return HeartbeatCounts(3, 2)
        if text := self._file(of).read_text():
            raise WorkerLost(text, [NODE.id])
        return None, False

    def kill(self, worker: str) -> None:
        pass

    def close(self) -> None:
        while (self._folder / HANG_ON_CLOSE).exists():
            time.sleep(0.01)

    def _file(self, run_id: int) -> Path:
        return self._folder / f"run {run_id}"
