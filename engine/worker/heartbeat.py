"""A worker's heartbeat: two counters in memory shared with its dispatcher.

Reading them needs no lock and no database, so it works even while a stopped worker blocks all writers.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Counters = ctypes.Array[ctypes.c_uint64]


@dataclass(frozen=True)
class HeartbeatCounts:
    """A snapshot of a worker's counters."""

    beats: int
    writes: int  # starts and ends of writes; odd during a write

    @property
    def is_writing(self) -> bool:
        return self.writes % 2 == 1


class Heartbeat:
    """The counters, incremented by one thread of the worker and read by the dispatcher."""

    def __init__(self, counters: Counters | None = None) -> None:
        """Without ``counters``, heartbeats have no effect."""
        self._counters = (ctypes.c_uint64 * 2)() if counters is None else counters

    def share(self, counters: Counters) -> None:
        """Shares the counters from now on."""
        self._counters = counters

    def reset(self) -> None:
        """Resets the counters for a new process."""
        self._counters[0] = self._counters[1] = 0

    def beat(self) -> None:
        self._counters[0] += 1

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Marks a write transaction, including the wait for its lock and the commit."""
        self._counters[1] += 1
        try:
            yield
        finally:
            self._counters[1] += 1

    @property
    def counts(self) -> HeartbeatCounts:
        return HeartbeatCounts(*self._counters)


HEARTBEAT = Heartbeat()  # this process's
