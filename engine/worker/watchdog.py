"""Which workers no longer get on, by signs of life that have stopped changing."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.core.environment import whole_number
from engine.worker.heartbeat import Signs

HUNG_S = 900.0  # longer than any step, by far: what is killed wrongly loses up to a checkpoint's worth of work
LONGEST_WRITE_S = 60.0  # at most in one write: transactions take milliseconds, and meanwhile nobody else can write
NOTICE_S = 3.0  # after that a write that does not end is shown on screen
LOOK_COUNTS_S = 1.0  # at most, however long nobody has looked

Worker = TypeVar("Worker", bound=Hashable)


@dataclass(frozen=True)
class _Silence:
    """The last signs of a worker, and for how long each of them has stayed the same."""

    signs: Signs
    idle_s: float = 0.0
    write_s: float = 0.0  # 0 outside a transaction

    def after(self, seconds: float, signs: Signs) -> "_Silence":
        is_same_write = signs.is_writing and signs.writes == self.signs.writes
        return _Silence(
            signs,
            self.idle_s + seconds if signs.beats == self.signs.beats else 0.0,
            self.write_s + seconds if is_same_write else 0.0,
        )


class Watchdog(Generic[Worker]):
    """Adds up how long each worker has been silent while somebody looked.

    No clock of the database takes part. Nor does the time in which this process itself stood still: whatever stopped
    it (a machine that sleeps, a terminal's Ctrl-Z) will have stopped the workers, too.
    """

    def __init__(self, hung_s: float | None = None) -> None:
        """``hung_s``, else FEDSCAPE_HUNG_S, is how long a worker may be silent."""
        self.hung_s = hung_s or whole_number("FEDSCAPE_HUNG_S") or HUNG_S
        self._silences: dict[Worker, _Silence] = {}

    @property
    def write_s(self) -> float:
        """How long one write may take, the wait for its lock included."""
        return min(self.hung_s, LONGEST_WRITE_S)

    def hung(self, signs: Mapping[Worker, Signs], elapsed_s: float) -> dict[Worker, str]:
        """Those that have been silent for too long, and why; ``elapsed_s`` has passed since the last call."""
        counts, before = min(elapsed_s, LOOK_COUNTS_S), self._silences
        self._silences = {
            worker: before[worker].after(counts, found) if worker in before else _Silence(found)
            for worker, found in signs.items()
        }
        return {worker: why for worker, silence in self._silences.items() if (why := self._verdict(silence))}

    @property
    def notice(self) -> str:
        """For the screen, while a worker holds up everyone who wants to write; else empty."""
        left = [self._left_s(silence) for silence in self._silences.values() if silence.write_s >= NOTICE_S]
        return f"A worker is not responding; it will be restarted in {max(0.0, min(left)):.0f} s" if left else ""

    def _left_s(self, silence: _Silence) -> float:
        return min(self.hung_s - silence.idle_s, self.write_s - silence.write_s)

    def _verdict(self, silence: _Silence) -> str:
        if silence.idle_s >= self.hung_s:
            return (
                f"the worker gave no sign of life for {self.hung_s:g} s and was killed; if a single step can take that "
                "long, set FEDSCAPE_HUNG_S to more seconds"
            )
        if silence.write_s >= self.write_s:
            return (
                f"the worker did not finish a write to the database within {self.write_s:g} s and was killed, because "
                "nothing else can be stored meanwhile; check the disk, or the database's server"
            )
        return ""
