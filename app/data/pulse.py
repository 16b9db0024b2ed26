"""Detects whether running runs make progress and have a worker, by changes of heartbeats and not by timestamps.

Heartbeats are timestamps of another process, perhaps on another computer, and clocks may be wrong. So a run is silent
for as long as this process, by its own monotonic clock, has seen the same heartbeat. Only the first heartbeat that it
sees is judged by its timestamp: how far it is behind the worker's, or behind now if there is no worker.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache

from storage import RunRecord, Store

GONE_AFTER_S = 5.0  # the app restarts a worker that died within this time
ENDLESS = math.inf  # the silence of a run without a worker


class Pulse:
    """The heartbeats of one database, as seen by this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed: dict[int, tuple[object, float]] = {}  # run -> its claim and heartbeat, and since when
        self._gone_since: float | None = None

    def gone_s(self, is_alive: bool) -> float:
        """The seconds for which there has been no worker."""
        now = self._clock()
        if is_alive:
            self._gone_since = None
            return 0.0
        self._gone_since = now if self._gone_since is None else self._gone_since
        return now - self._gone_since

    def silent_s(self, run: RunRecord, reference: Callable[[], datetime]) -> float:
        """The seconds for which the heartbeat of a run has not changed; ``reference`` is called the first time."""
        now, beat = self._clock(), (run.epoch, run.heartbeat_at)
        known, since = self._changed.get(run.id, (None, now))
        if known is None and run.heartbeat_at is not None:
            since = now - max(0.0, (reference() - run.heartbeat_at).total_seconds())
        elif known != beat:
            since = now
        self._changed[run.id] = beat, since
        return now - since


def silences(store: Store, runs: Iterable[RunRecord]) -> Mapping[int, float]:
    """The seconds since the last heartbeat of every running run; ENDLESS if no worker computes it."""
    running = [run for run in runs if run.status == "running"]
    if not running:
        return {}
    pulse, is_alive = pulse_of(store.url), store.dispatcher_is_running()
    if pulse.gone_s(is_alive) >= GONE_AFTER_S:
        return {run.id: ENDLESS for run in running}

    def reference() -> datetime:
        beats = [engine.heartbeat_at for engine in store.engines.list()] if is_alive else []
        return max(beats, default=datetime.now(UTC))

    return {run.id: pulse.silent_s(run, reference) for run in running}


@cache
def pulse_of(url: str) -> Pulse:
    """One per process, shared by all pages and requests."""
    return Pulse()
