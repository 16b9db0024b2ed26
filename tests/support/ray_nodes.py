"""A Ray cluster of several nodes on this machine, with tokens on, only inside a network namespace without a network."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "FEDSCAPE_TEST_NODE"  # in the environment of all processes of a node, workers included
PORT = 6379
HEAD = 1
MEMORY_BYTES = 80_000_000  # of a node's object store, which stays nearly empty
START_S, STOP_S = 120.0, 30.0
# Notices a dead node after 3 s instead of 15 or more.
HEALTH_CHECKS = {"period_ms": 1000, "timeout_ms": 10_000, "failure_threshold": 3, "initial_delay_ms": 1000}


def missing() -> str | None:
    """Why Ray cannot be started here, or None. It listens on all interfaces, so only loopback is allowed."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    if others:
        return f"this is no network namespace of our own: there is {', '.join(others)}"
    if shutil.which(RAY) is None:
        return f"Ray is not installed ({RAY})"
    return None


RAY = str(Path(sys.executable).with_name("ray"))


class RayNodes:
    """Nodes by number, with the addresses 127.0.0.<number>; the first is the head."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """``settings``: environment variables of all nodes."""
        if problem := missing():
            raise RuntimeError(problem)
        self.folder, self.address = folder, f"127.0.0.{HEAD}:{PORT}"
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
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, cpus: int = 1, before: Sequence[str] = (), **settings: str) -> None:
        """Starts a node and returns at once. ``before``: a command that runs Ray, as ``unshare``."""
        words = [f"--address={self.address}"]
        if number == HEAD:
            words = ["--head", f"--port={PORT}", "--include-dashboard=false"]
            settings |= {f"RAY_health_check_{name}": str(value) for name, value in HEALTH_CHECKS.items()}
        command = [RAY, "start", "--block", *words, f"--num-cpus={cpus}", f"--object-store-memory={MEMORY_BYTES}"]
        command += [f"--node-ip-address=127.0.0.{number}", "--disable-usage-stats"]
        with open(self.folder / f"node{number}.log", "ab") as log:
            self._started[number] = subprocess.Popen(
                [*before, *command],
                cwd=self.folder,
                env=self.environment | {MARK: str(number)} | settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, *numbers: int) -> None:
        """Waits until these nodes have joined."""
        deadline = time.monotonic() + START_S
        for number in numbers:
            while "Ray runtime started" not in (log := (self.folder / f"node{number}.log").read_text()):
                if self._started[number].poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"node {number} did not start: {log[-2000:]}")
                time.sleep(0.1)

    def processes(self, number: int) -> list[int]:
        """The ids of all processes of a node."""
        mark, found = f"{MARK}={number}\0".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def kill(self, number: int) -> None:
        """Kill all processes at once, as in a power cut, so that none reports the death of another."""
        for signal_number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self.processes(number):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
        self._started.pop(number).wait()
        (self.folder / f"node{number}.log").unlink()

    def close(self) -> None:
        for number in list(self._started):
            self.kill(number)


@contextmanager
def running(cpus: Mapping[int, int], **settings: str) -> Iterator[RayNodes]:
    """A cluster; ``cpus`` by the number of the node."""
    folder = Path(tempfile.mkdtemp(prefix="fedscape-ray-"))
    nodes = RayNodes(folder, settings)
    try:
        nodes.start(HEAD, cpus[HEAD])
        nodes.wait(HEAD)
        for number in cpus.keys() - {HEAD}:  # one after the other: together they time out on two busy cores
            nodes.start(number, cpus[number])
            nodes.wait(number)
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(folder, ignore_errors=True)
