"""Detects hung workers by heartbeats that no longer change."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.core.environment import whole_number
from engine.worker.heartbeat import HeartbeatCounts

HUNG_S = 900.0  # far longer than any step, since a wrong kill loses the work since the last checkpoint
MAX_WRITE_S = 60.0  # limit for one write: transactions take milliseconds, and block other writers
NOTICE_S = 3.0  # a write that takes longer is displayed
MAX_CHECK_S = 1.0  # the most that one check can add

Worker = TypeVar("Worker", bound=Hashable)


@dataclass(frozen=True)
class _Silence:
    """A worker's last heartbeat, and for how long each counter has been unchanged."""

    counts: HeartbeatCounts
    idle_s: float = 0.0
    write_s: float = 0.0  # 0 outside a transaction

    def after(self, seconds: float, counts: HeartbeatCounts) -> "_Silence":
        is_same_write = counts.is_writing and counts.writes == self.counts.writes
        return _Silence(
            counts,
            self.idle_s + seconds if counts.beats == self.counts.beats else 0.0,
            self.write_s + seconds if is_same_write else 0.0,
        )


class Watchdog(Generic[Worker]):
    """Adds up how long each worker has been silent while it was being checked.

    Uses no clock of the database, and does not count time in which this process itself was suspended: whatever
    suspended it (sleep, Ctrl-Z) will have suspended the workers too.
    """

    def __init__(self, hung_s: float | None = None) -> None:
        """``hung_s``, else FEDSCAPE_HUNG_S, is how long a worker may be silent, in seconds."""
        self.hung_s = hung_s or whole_number("FEDSCAPE_HUNG_S") or HUNG_S
        self._silences: dict[Worker, _Silence] = {}

    @property
    def write_s(self) -> float:
        """How long one write may take, in seconds, including the wait for its lock."""
        return min(self.hung_s, MAX_WRITE_S)

    def hung(self, counts: Mapping[Worker, HeartbeatCounts], elapsed_s: float) -> dict[Worker, str]:
        """The workers that have been silent for too long, and why. ``elapsed_s`` is the time since the last call."""
        counted_s, before = min(elapsed_s, MAX_CHECK_S), self._silences
        self._silences = {
            worker: before[worker].after(counted_s, found) if worker in before else _Silence(found)
            for worker, found in counts.items()
        }
        return {worker: why for worker, silence in self._silences.items() if (why := self._problem(silence))}

    @property
    def notice(self) -> str:
        """The notice to display while a worker blocks all writers; else empty."""
        remaining = [self._remaining_s(silence) for silence in self._silences.values() if silence.write_s >= NOTICE_S]
        return (
            f"A worker is not responding; it will be restarted in {max(0.0, min(remaining)):.0f} s" if remaining else ""
        )

    def _remaining_s(self, silence: _Silence) -> float:
        return min(self.hung_s - silence.idle_s, self.write_s - silence.write_s)

    def _problem(self, silence: _Silence) -> str:
        if silence.idle_s >= self.hung_s:
            return (
                f"the worker sent no heartbeat for {self.hung_s:g} s and was killed; if a single step can take that "
                "long, increase FEDSCAPE_HUNG_S"
            )
        if silence.write_s >= self.write_s:
            return (
                f"the worker did not finish a write to the database within {self.write_s:g} s and was killed; check "
                "the disk or the database server"
            )
        return ""
