"""The tree of processes and what each one uses, read from /proc on Linux."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MIB = 2**20
WEB, DISPATCHER, FORK_SERVER, WORKER, OTHER = "web server", "dispatcher", "fork server", "worker", "other"


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int  # ticks since boot: distinguishes it from a later process with the same pid
    command: str

    @property
    def is_alive(self) -> bool:
        found = read(self.pid)
        return found is not None and found.started == self.started

    def send(self, number: signal.Signals) -> None:
        """Sends the signal, if the process is still alive."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True)
class Usage:
    """Resources used by one process or by several together."""

    memory_mib: float  # proportional set size (PSS), if readable
    threads: int
    handles: int
    cpu_s: float  # since its start

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.memory_mib + other.memory_mib,
            self.threads + other.threads,
            self.handles + other.handles,
            self.cpu_s + other.cpu_s,
        )


NO_USAGE = Usage(0.0, 0, 0, 0.0)


def read(pid: int) -> Process | None:
    """None for a process that has ended, including zombies."""
    try:
        fields = _stat(pid)
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] == "Z":
        return None
    return Process(pid, int(fields[1]), int(fields[19]), command.replace(b"\0", b" ").decode(errors="replace").strip())


def process_tree(root: int) -> list[Process]:
    """The process and all its descendants."""
    everyone = [process for name in os.listdir(PROC) if name.isdecimal() and (process := read(int(name)))]
    children: dict[int, list[Process]] = defaultdict(list)
    for process in everyone:
        children[process.parent].append(process)
    found = [process for process in everyone if process.pid == root]
    for process in found:  # grows while iterating
        found += children[process.pid]
    return found


def parts_of_app(processes: Iterable[Process]) -> dict[str, list[Process]]:
    """The app's processes by their role."""
    processes = list(processes)
    servers = {p.pid for p in processes if "multiprocessing.forkserver" in p.command}
    parts: dict[str, list[Process]] = defaultdict(list)
    for process in processes:
        parts[_part(process, servers)].append(process)
    return parts


def usage(process: Process) -> Usage:
    """NO_USAGE if the process has just ended."""
    folder = PROC / str(process.pid)
    try:
        fields = _stat(process.pid)
        handles = len(os.listdir(folder / "fd"))
        return Usage(_memory_mib(folder), int(fields[17]), handles, (int(fields[11]) + int(fields[12])) / TICKS_PER_S)
    except (FileNotFoundError, ProcessLookupError):
        return NO_USAGE


def _part(process: Process, servers: set[int]) -> str:
    """The role of a process; a worker has the command line of its fork server."""
    if process.pid in servers:
        return WORKER if process.parent in servers else FORK_SERVER
    if "streamlit run" in process.command:
        return WEB
    return DISPATCHER if "engine worker" in process.command else OTHER


def _stat(pid: int) -> list[str]:
    """The fields of proc(5) from the third on (state, parent, ...); the second, the name, may hold any characters."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _memory_mib(folder: Path) -> float:
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    except PermissionError:
        return int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / MIB
