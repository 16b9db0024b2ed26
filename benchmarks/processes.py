"""Who started whom, and what each process uses, as Linux shows it under /proc."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_A_S = os.sysconf("SC_CLK_TCK")
MIB = 2**20
WEB, DISPATCHER, FORK_SERVER, WORKER, OTHER = "web server", "dispatcher", "fork server", "worker", "other"


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int  # ticks since the machine started: tells it from a later one of the same number
    command: str

    @property
    def is_alive(self) -> bool:
        found = read(self.pid)
        return found is not None and found.started == self.started

    def send(self, number: signal.Signals) -> None:
        """If it is still there."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True)
class Usage:
    """Of one process, or of several together."""

    memory_mib: float  # what it shares with others is shared out among them (PSS), as far as that may be read
    threads: int
    handles: int
    cpu_s: float  # since it started

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.memory_mib + other.memory_mib,
            self.threads + other.threads,
            self.handles + other.handles,
            self.cpu_s + other.cpu_s,
        )


NOTHING = Usage(0.0, 0, 0, 0.0)


def read(pid: int) -> Process | None:
    """None for one that has ended, also where nobody has asked how."""
    try:
        fields = _stat(pid)
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] == "Z":
        return None
    return Process(pid, int(fields[1]), int(fields[19]), command.replace(b"\0", b" ").decode(errors="replace").strip())


def below(root: int) -> list[Process]:
    """The process, and whatever it has started, directly or not."""
    everyone = [process for name in os.listdir(PROC) if name.isdecimal() and (process := read(int(name)))]
    children: dict[int, list[Process]] = defaultdict(list)
    for process in everyone:
        children[process.parent].append(process)
    found = [process for process in everyone if process.pid == root]
    for process in found:  # grows as it is read
        found += children[process.pid]
    return found


def parts_of_app(processes: Iterable[Process]) -> dict[str, list[Process]]:
    """The app's processes by what they are for."""
    processes = list(processes)
    servers = {p.pid for p in processes if "multiprocessing.forkserver" in p.command}
    parts: dict[str, list[Process]] = defaultdict(list)
    for process in processes:
        parts[_part(process, servers)].append(process)
    return parts


def usage(process: Process) -> Usage:
    """NOTHING where it has just ended."""
    folder = PROC / str(process.pid)
    try:
        fields = _stat(process.pid)
        handles = len(os.listdir(folder / "fd"))
        return Usage(_memory_mib(folder), int(fields[17]), handles, (int(fields[11]) + int(fields[12])) / TICKS_A_S)
    except (FileNotFoundError, ProcessLookupError):
        return NOTHING


def _part(process: Process, servers: set[int]) -> str:
    """A worker is a copy of the fork server, its command line included."""
    if process.pid in servers:
        return WORKER if process.parent in servers else FORK_SERVER
    if "streamlit run" in process.command:
        return WEB
    return DISPATCHER if "engine worker" in process.command else OTHER


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold anything: state, parent, ... as in proc(5) from the third on."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _memory_mib(folder: Path) -> float:
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    except PermissionError:
        return int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / MIB
