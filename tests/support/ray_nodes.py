"""A Ray cluster of several nodes on this machine, with tokens on, only inside a network namespace without a network."""

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support import machines
from tests.support.machines import Machine, Program

ROOT = Path(__file__).resolve().parents[2]
RAY = str(Path(sys.executable).with_name("ray"))
PORT = 6379
HEAD = 1
PART = "ray"  # of a machine: Ray and its workers
MEMORY_BYTES = 80_000_000  # of a node's object store, which stays nearly empty
START_S = 120.0
# Notices a dead node after 3 s instead of 15 or more.
HEALTH_CHECKS = {"period_ms": 1000, "timeout_ms": 10_000, "failure_threshold": 3, "initial_delay_ms": 1000}


def missing() -> str | None:
    """What keeps Ray from being started here, or None. It listens on all interfaces, so none may lead elsewhere."""
    return machines.missing() or (None if shutil.which(RAY) else f"Ray is not installed ({RAY})")


class RayNodes:
    """Nodes by number, on a machine each; the first is the head."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """``settings``: environment variables of all nodes."""
        if problem := missing():
            raise RuntimeError(problem)
        self.folder, self.settings, self.machines = folder, dict(settings), {HEAD: Machine(HEAD)}
        self.address = f"{self.machines[HEAD].address}:{PORT}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "RAY_worker_niceness": "0",
            "RAY_raylet_start_wait_time_s": f"{START_S:g}",
            **settings,
        }
        self._started: dict[int, Program] = {}

    def start(self, number: int, cpus: int = 1, before: Sequence[str] = (), **settings: str) -> None:
        """Starts a node and returns at once. ``before``: a command that runs Ray, as ``unshare``."""
        machine = self._machine(number)
        words = [f"--address={self.address}"]
        if number == HEAD:
            words = ["--head", f"--port={PORT}", "--include-dashboard=false"]
            checks = {f"RAY_health_check_{name}": str(value) for name, value in HEALTH_CHECKS.items()}
            settings = checks | self.settings | settings
        command = [RAY, "start", "--block", *words, f"--num-cpus={cpus}", f"--object-store-memory={MEMORY_BYTES}"]
        command += [f"--node-ip-address={machine.address}", "--disable-usage-stats"]
        with self._log(number).open("ab") as log:
            self._started[number] = machine.start(
                [*before, *command], self.environment | settings, PART, cwd=self.folder, stdout=log, stderr=log
            )

    def wait(self, *numbers: int) -> None:
        """Waits until these nodes have joined."""
        deadline = time.monotonic() + START_S
        for number in numbers:
            while not self.has_joined(number):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"node {number} did not start: {self._log(number).read_text()[-2000:]}")
                time.sleep(0.1)

    def has_joined(self, number: int) -> bool:
        """Whether a started node has joined. Raises RuntimeError if it has ended."""
        log = self._log(number).read_text()
        if "Ray runtime started" not in log and self._started[number].poll() is not None:
            raise RuntimeError(f"node {number} did not start: {log[-2000:]}")
        return "Ray runtime started" in log

    def kill(self, number: int, part: str | None = None) -> None:
        """Kills all processes of the machine at once, or only those of Ray, its ``PART``."""
        self.machines[number].kill_processes(part)
        if (started := self._started.pop(number, None)) is not None:
            started.kill()
            self._log(number).unlink()

    def restart(self, *numbers: int, cpus: int = 1) -> None:
        """Starts nodes that do not run, one after the other: together they time out on two busy cores."""
        for number in numbers:
            self.start(number, cpus)
            self.wait(number)

    def close(self) -> None:
        for number in list(self._started):
            self.kill(number)
        for machine in self.machines.values():
            machine.close()

    def _machine(self, number: int) -> Machine:
        if number not in self.machines:
            self.machines[number] = Machine(number)
        return self.machines[number]

    def _log(self, number: int) -> Path:
        return self.folder / f"node{number}.log"


@contextmanager
def running(cpus: Mapping[int, int], **settings: str) -> Iterator[RayNodes]:
    """A cluster; ``cpus`` by the number of the node."""
    folder = Path(tempfile.mkdtemp(prefix="fedscape-ray-"))
    nodes = RayNodes(folder, settings)
    try:
        for number in sorted(cpus):
            nodes.restart(number, cpus=cpus[number])
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(folder, ignore_errors=True)
