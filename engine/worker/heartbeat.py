"""A worker's signs of life: two counters in memory that it shares with its dispatcher.

Reading them needs neither a lock nor the database, so they can be read while a stopped worker blocks every writer.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Counters = ctypes.Array[ctypes.c_uint64]


@dataclass(frozen=True)
class Signs:
    """What one look at a worker sees."""

    beats: int
    writes: int  # begun and ended ones together

    @property
    def is_writing(self) -> bool:
        return self.writes % 2 == 1


class Life:
    """One side of the counters: one thread of the worker moves them, the dispatcher reads them."""

    def __init__(self, counters: Counters | None = None) -> None:
        """Without ``counters`` nobody looks."""
        self._counters = (ctypes.c_uint64 * 2)() if counters is None else counters

    def share(self, counters: Counters) -> None:
        """From now on somebody looks."""
        self._counters = counters

    def begin(self) -> None:
        """A new process moves the counters."""
        self._counters[0] = self._counters[1] = 0

    def beat(self) -> None:
        self._counters[0] += 1

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around a write transaction, the wait for its lock and the commit included."""
        self._counters[1] += 1
        try:
            yield
        finally:
            self._counters[1] += 1

    @property
    def signs(self) -> Signs:
        return Signs(*self._counters)


OURS = Life()  # of this process
