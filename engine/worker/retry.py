"""Getting on with a database that cannot be used for a while: its disk is full, it is locked, its server is away."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from engine.worker.heartbeat import OURS
from storage import Transient

RETRY_S = 1.0

log = logging.getLogger(__name__)

T = TypeVar("T")


def patiently(ask: Callable[[], T], meanwhile: Callable[[], object] = lambda: None) -> T:
    """Asks again until the database answers, however long that is: what waits here is nowhere else.

    Whoever waits can be killed at any time; the work is then taken up again from what is stored. ``meanwhile`` is done
    before each further try.
    """
    said = ""
    while True:
        OURS.beat()
        try:
            return ask()
        except Transient as error:
            if str(error) != said:
                said = str(error)
                log.warning("%s; asking again until it works", said)
            time.sleep(RETRY_S)
            meanwhile()


class Outage:
    """Since when writes have failed, and why: one line on stderr when it begins, one for the run's log when it ends."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._reason = ""

    @property
    def lasts(self) -> bool:
        return self._since is not None

    def begin(self, error: Transient, run_id: int) -> None:
        if self._since is None:
            self._since, self._reason = self._clock(), str(error)
            log.warning("run %d: %s; it goes on, and its rounds wait in memory", run_id, error)

    def end(self, num_rounds: int) -> str | None:
        """What to tell, if there was one."""
        if self._since is None:
            return None
        lasted, self._since = self._clock() - self._since, None
        return f"for {lasted:.0f} s nothing could be stored ({self._reason}); {num_rounds} rounds waited in memory"
