"""Which workers no longer get on, told by a sign of life that has stopped changing."""

from collections.abc import Hashable, Mapping

from engine.worker.environment import whole_number
from engine.worker.executor import Key

HUNG_S = 900  # longer than any step, by far: what is killed wrongly loses up to a checkpoint's worth of work
LOOK_COUNTS_S = 1.0  # at most, however long nobody has looked


class Watchdog:
    """Adds up how long each sign of life has stayed the same while somebody looked.

    No clock of the database takes part. Nor does the time in which this process itself stood still: whatever stopped
    it (a machine that sleeps, a terminal's Ctrl-Z) will have stopped the workers, too.
    """

    def __init__(self, hung_s: float | None = None) -> None:
        """``hung_s``, else FEDSCAPE_HUNG_S, is how long a worker may be silent."""
        self.hung_s = hung_s or whole_number("FEDSCAPE_HUNG_S") or HUNG_S
        self._silent: dict[Key, tuple[Hashable, float]] = {}  # the last sign, and how long it is the last

    def hung(self, signs: Mapping[Key, Hashable], elapsed_s: float) -> list[Key]:
        """Those of ``signs`` that have been silent for too long; ``elapsed_s`` has passed since the last call."""
        counts = min(elapsed_s, LOOK_COUNTS_S)
        before = self._silent
        self._silent = {
            key: (sign, before[key][1] + counts if key in before and before[key][0] == sign else 0.0)
            for key, sign in signs.items()
        }
        return [key for key, (_, silent_s) in self._silent.items() if silent_s >= self.hung_s]

    @property
    def verdict(self) -> str:
        """What is said of one that hung, and what to do."""
        return (
            f"the worker gave no sign of life for {self.hung_s:g} s and was killed; if a single step can take that "
            "long, set FEDSCAPE_HUNG_S to more seconds"
        )
