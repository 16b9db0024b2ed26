"""Finds the process of this machine that has locked a file. Linux only; elsewhere nothing is found."""

from dataclasses import dataclass
from pathlib import Path

LOCKS, PROC = Path("/proc/locks"), Path("/proc")
FORK_SERVER = "multiprocessing.forkserver"  # part of its command line and of every worker's


@dataclass(frozen=True)
class LockHolder:
    """A process that holds a lock."""

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
    def advice(self) -> str:
        """What to do so that the lock is released."""
        if self.is_worker and not self.is_abandoned:
            return "the engine restarts it if it hangs; try again in a minute"
        if self.is_stopped:
            return (
                f"it is stopped: kill -CONT {self.pid} resumes it, kill -9 {self.pid} ends it and loses only "
                "what it had not committed"
            )
        return "close it, or wait until it has finished, and try again"


def lock_holder(file: Path, kind: str, first_byte: int | None = None) -> int | None:
    """The id of the process that has locked ``file``, from ``first_byte`` on; ``kind`` is POSIX or FLOCK.

    Does not open the file: closing it again would release the POSIX locks that this process has on it.
    """
    try:
        inode, lines = file.stat().st_ino, LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:  # 5: POSIX  ADVISORY  WRITE 1234 08:01:5678 120 120
        found = line.split()[1:]
        if found[0] != kind or found[2] != "WRITE":  # a waiting process is listed with ->
            continue
        if found[4].endswith(f":{inode}") and first_byte in (None, int(found[5])):
            return int(found[3])
    return None


def find_process(pid: int, dispatcher: int | None) -> LockHolder | None:
    """The process with this id, or None. ``dispatcher`` is the process id of the current dispatcher."""
    try:
        state, parent = _state_and_parent(pid)
        command = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        # The fork server is in between. It exists as long as its workers.
        is_abandoned = FORK_SERVER in command and _state_and_parent(parent)[1] != dispatcher
        return LockHolder(pid, command, state in "Tt", is_abandoned)
    except OSError:
        return None


def _state_and_parent(pid: int) -> tuple[str, int]:
    """State and parent of a process, see proc(5)."""
    state, parent = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)
