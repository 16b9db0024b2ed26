"""Retries while the database is unavailable: its disk is full, it is locked, or its server is down."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from engine.worker.heartbeat import HEARTBEAT
from storage import Transient

RETRY_S = 1.0

log = logging.getLogger(__name__)

T = TypeVar("T")


def until_available(call: Callable[[], T], before_retry: Callable[[], object] = lambda: None) -> T:
    """Retries until the database answers, however long that takes, since the data to write exists only in memory.

    The caller may be killed at any time; its work then resumes from what is stored. ``before_retry`` runs each time.
    """
    logged = ""
    while True:
        HEARTBEAT.beat()
        try:
            return call()
        except Transient as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("%s; retrying until it works", logged)
            time.sleep(RETRY_S)
            before_retry()


class Outage:
    """Since when writes have failed, and why: one line on stderr when it begins, one in the run's log when it ends."""

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
            log.warning("run %d: %s; it continues, and its rounds wait in memory", run_id, error)

    def end(self, num_rounds: int) -> str | None:
        """The message for the run's log, if there was an outage."""
        if self._since is None:
            return None
        lasted, self._since = self._clock() - self._since, None
        held = "1 round was" if num_rounds == 1 else f"{num_rounds} rounds were"
        return f"for {lasted:.0f} s nothing could be stored ({self._reason}); {held} held in memory"
