"""A Ray cluster, used with FEDSCAPE_EXECUTOR=ray. No other module imports Ray.

Ray starts the processes, and notices when machines join, leave or die. Only the dispatcher retries.
"""

import os
import signal
import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from engine.core.errors import InvalidConfig
from engine.worker.cluster import (
    Call,
    ClusterUnavailable,
    Handle,
    Node,
    Share,
    Unreachable,
    WorkerLost,
    unreachable,
)
from engine.worker.executor import Work

AUTH_MODE, TOKEN = "RAY_AUTH_MODE", "token"
AUTO = "auto"
HEAD_S = 10.0  # to open a connection
LOCAL = ("local", "ray://")  # a cluster of its own, and the client protocol, which has no tokens of nodes
OUT_OF_MEMORY = "Ray killed it since the machine ran out of memory: run fewer at once, or choose smaller models"


class RayCluster:
    """Connected from the start, as a driver on one of the nodes: Ray has to run on this machine, too."""

    def __init__(self, address: str) -> None:
        """``address`` as of ``ray_address``. Raises ClusterUnavailable."""
        _check_head(address)
        os.environ[AUTH_MODE] = TOKEN  # read when ray is imported
        import ray

        self._ray: Any = ray
        self._address = address
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            ray.init(address=address, log_to_driver=False, logging_level="WARNING", include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            raise ClusterUnavailable(_refusal(address, error)) from error
        finally:
            _restore(handlers)
        self._node = ray.get_runtime_context().get_node_id()
        self._worker_class = _worker_class(ray)

    def nodes(self) -> list[Node]:
        try:
            found = self._ray.nodes()
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterUnavailable(unreachable(self._address, _first_line(error))) from error
        alive = [_node(node) for node in found if node["Alive"]]
        if not any(node.id == self._node for node in alive):  # workers of a driver without its node cannot start
            raise ClusterUnavailable(unreachable(self._address, "Ray on the dispatcher's machine has ended"))
        return alive

    def start(self, share: Share, orders: dict[str, Any], avoid: Collection[str]) -> tuple[Handle, Call]:
        places = {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"}} if avoid else {}
        options = self._worker_class.options(
            num_cpus=share.cpus,
            num_gpus=share.gpu,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            **places,
        )
        worker = options.remote(orders, max(1, share.cpus), share.gpu > 0)
        return worker, worker.greet.remote()

    def work(self, worker: Handle, ticket: Work) -> Call:
        call: Call = worker.work.remote(ticket)
        return call

    def heartbeat(self, worker: Handle) -> Call:
        call: Call = worker.heartbeat.remote()
        return call

    def returned(self, calls: Sequence[Call], wait_s: float = 0.0) -> list[Call]:
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=wait_s)
        if ready and len(calls) > 1:
            ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return list(ready)

    def result(self, call: Call) -> Any:
        errors = self._ray.exceptions
        try:
            found = self._ray.get(call)
        except errors.OutOfMemoryError as error:
            raise WorkerLost(OUT_OF_MEMORY, self._alive()) from error
        except errors.ActorUnavailableError as error:
            raise Unreachable(_first_line(error), self._alive()) from error
        except errors.RayError as error:
            raise WorkerLost(_first_line(error), self._alive()) from error
        return found

    def _alive(self) -> list[str]:
        with suppress(ClusterUnavailable):
            return [node.id for node in self.nodes()]
        return []

    def kill(self, worker: Handle) -> None:
        self._ray.kill(worker, no_restart=True)

    def close(self) -> None:
        self._ray.shutdown()


def _worker_class(ray: Any) -> Any:
    """The class that Ray sends to the nodes, with its code, so that it runs on any version of Fedscape.

    Work and heartbeats have a thread each: torch's settings belong to a thread.
    """

    class FedscapeWorker:
        def __init__(self, orders: dict[str, Any], threads: int, uses_gpu: bool) -> None:
            self.arguments = orders, threads, uses_gpu

        @ray.method(concurrency_group="work")
        def greet(self) -> tuple[str, str, str]:
            import os
            import socket

            import ray

            os.environ.update(self.arguments[0]["environment"])
            try:
                from engine.worker import remote_worker

                problem = remote_worker.prepare(*self.arguments)
            except Exception as error:  # noqa: BLE001  another version may fail in any way
                problem = f"its Fedscape does not start ({type(error).__name__}: {error})"
            return ray.get_runtime_context().get_node_id(), socket.gethostname(), problem

        @ray.method(concurrency_group="work")
        def work(self, ticket: Any) -> Any:
            from engine.worker import remote_worker

            return remote_worker.work(ticket, *self.arguments)

        @ray.method(concurrency_group="watch")
        def heartbeat(self) -> Any:
            from engine.worker import remote_worker

            return remote_worker.heartbeat()

    return ray.remote(concurrency_groups={"work": 1, "watch": 1})(FedscapeWorker)


def ray_address() -> str:
    """RAY_ADDRESS, by default the cluster whose node runs here. Raises InvalidConfig if it can never work."""
    address = os.environ.get("RAY_ADDRESS") or AUTO
    if address.startswith(LOCAL):
        raise InvalidConfig([f"RAY_ADDRESS: {address!r}, must be auto or the HOST:PORT of a cluster's head"])
    if (mode := os.environ.get(AUTH_MODE, TOKEN)) != TOKEN:
        why = "Ray listens on every interface, and without tokens anyone who reaches it can run code there"
        raise InvalidConfig([f"{AUTH_MODE}: {mode!r}, must be {TOKEN!r}: {why}"])
    if find_spec("ray") is None:
        hint = "install it on all machines: .venv/bin/pip install -r requirements-ray.txt"
        raise InvalidConfig([f"FEDSCAPE_EXECUTOR=ray needs Ray, which is not installed; {hint}"])
    return address


def _check_head(address: str) -> None:
    """Raises ClusterUnavailable if nothing listens at the address. Ray would try again for minutes, and hide why."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), HEAD_S).close()
    except OSError as error:
        raise ClusterUnavailable(unreachable(address, error.strerror or str(error))) from error


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    """Restores the signal handlers that Ray has replaced: its own wait for the cluster."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _node(found: dict[str, Any]) -> Node:
    resources = found["Resources"]
    kinds = [name.partition(":")[2] for name in sorted(resources) if name.startswith("accelerator_type:")]
    gpus = int(resources.get("GPU", 0))
    device = ", ".join(kinds) or "GPU" if gpus else "cpu"
    return Node(found["NodeID"], found["NodeManagerHostname"], device, int(resources.get("CPU", 0)), gpus)


def _refusal(address: str, error: Exception) -> str:
    why = (
        f"{_first_line(error)}; Ray must run on the head and on this machine, with the same Python, the same version "
        "of Ray and the same token (RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH)"
    )
    return unreachable(address, why)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
