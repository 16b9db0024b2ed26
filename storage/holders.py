"""Which process of this machine has locked a file. Only Linux shows it; elsewhere nobody is known."""

from dataclasses import dataclass
from pathlib import Path

LOCKS, PROC = Path("/proc/locks"), Path("/proc")
FORK_SERVER = "multiprocessing.forkserver"  # in its command, and in that of every worker, which it starts


@dataclass(frozen=True)
class Holder:
    """A process, by what the system says of it."""

    pid: int
    command: str
    is_stopped: bool  # as by Ctrl-Z or kill -STOP
    is_abandoned: bool  # a worker whose dispatcher has ended

    @property
    def is_worker(self) -> bool:
        return FORK_SERVER in self.command

    def __str__(self) -> str:
        what = "a worker of the engine" if self.is_worker else self.command[:80]
        return f"process {self.pid} ({what})"

    @property
    def way_out(self) -> str:
        """What to do so that it lets go."""
        if self.is_worker and not self.is_abandoned:
            return "the engine restarts it if it does not go on; try again in a minute"
        if self.is_stopped:
            return (
                f"it is stopped: kill -CONT {self.pid} lets it go on, kill -9 {self.pid} ends it, which undoes only "
                "what it had not committed"
            )
        return "close it, or wait until it has finished, and try again"


def holder(file: Path, kind: str, first_byte: int | None = None) -> int | None:
    """Who has locked ``file`` for itself, from ``first_byte`` on, by its process id; ``kind``: POSIX or FLOCK.

    Nobody opens the file for this: closing it again would give up the POSIX locks that this process has on it.
    """
    try:
        inode, lines = file.stat().st_ino, LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:  # 5: POSIX  ADVISORY  WRITE 1234 08:01:5678 120 120
        found = line.split()[1:]
        if found[0] != kind or found[2] != "WRITE":  # that of somebody who waits begins with ->
            continue
        if found[4].endswith(f":{inode}") and first_byte in (None, int(found[5])):
            return int(found[3])
    return None


def process(pid: int, dispatcher: int | None) -> Holder | None:
    """None where there is no such process. ``dispatcher``: the process id of the one there is."""
    try:
        state, parent = _state_and_parent(pid)
        command = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        # The fork server is between them. It lives for as long as a worker does.
        is_abandoned = FORK_SERVER in command and _state_and_parent(parent)[1] != dispatcher
        return Holder(pid, command, state in "Tt", is_abandoned)
    except OSError:
        return None


def _state_and_parent(pid: int) -> tuple[str, int]:
    """As in proc(5)."""
    state, parent = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)
