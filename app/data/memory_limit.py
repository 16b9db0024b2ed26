"""The memory limit for data in a web server: larger data is rejected before it is read.

Data is cached and released after a while without use. Several web servers divide the memory among them.
"""

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from app.data.turns import POLL_S, leave_if_outdated
from app.wording import size_bytes
from engine.core.environment import nonnegative_number
from engine.core.errors import TooLarge

DATA_MB = "FEDSCAPE_DATA_MB"
DEFAULT_BYTES = 3e9
IDLE_S, TICK_S = 120.0, 0.1
T = TypeVar("T")


web_servers = 1
"""The number of web servers that divide the memory; set when a web server starts."""


def most_bytes() -> float:
    """This web server's share of ``FEDSCAPE_DATA_MB``; by default of 3 GB, or of half the memory if that is less."""
    limit = nonnegative_number(DATA_MB)
    if limit is None:
        return min(DEFAULT_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2) / web_servers
    return limit * 1e6 / web_servers


def require_room(needed: float) -> None:
    """Raises TooLarge if data of ``needed`` bytes exceeds the limit."""
    limit = most_bytes()
    if needed > limit:
        raise TooLarge(
            f"this data takes about {size_bytes(needed)} of memory, and the app's limit is {size_bytes(limit)}; use "
            "fewer clients, samples or features, run it with `python -m engine run`, or start Fedscape with "
            f"{DATA_MB}={-(-needed * web_servers // 1e6):.0f}"
        )


@dataclass
class _Kept:
    value: Any
    num_bytes: float
    used: float


class KeptData:
    """A cache of data by key, at most ``most_bytes()`` in total: least recently used first out, idle entries released.

    Only one entry is made at a time, so that concurrent readers do not multiply the memory.
    """

    def __init__(self, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._clock = idle_s, clock
        self._kept: dict[Hashable, _Kept] = {}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    @property
    def num_bytes(self) -> float:
        return sum(kept.num_bytes for kept in self._kept.values())

    def get(self, key: Hashable, needed: Callable[[], float], make: Callable[[], T], size: Callable[[T], float]) -> T:
        """The value of ``key``, made if it is not cached. Raises TooLarge if making it takes too much memory."""
        kept = self._kept.get(key)
        if kept is None:
            with self._locked():
                kept = self._kept.get(key) or self._made(key, needed, make, size)
        kept.used = self._clock()
        found: T = kept.value
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock. A press ends the wait for another reader's data, which may be downloaded."""
        while not self._lock.acquire(timeout=POLL_S):
            leave_if_outdated()
        try:
            yield
        finally:
            self._lock.release()

    def _made(
        self, key: Hashable, needed: Callable[[], float], make: Callable[[], T], size: Callable[[T], float]
    ) -> _Kept:
        num_bytes = needed()
        require_room(num_bytes)
        self._make_room(num_bytes)
        value = make()
        kept = self._kept[key] = _Kept(value, size(value), self._clock())
        self._watch()
        return kept

    def release_idle(self) -> None:
        """Release entries not used for ``idle_s``."""
        with self._lock:
            before = self._clock() - self._idle_s
            self._kept = {key: kept for key, kept in self._kept.items() if kept.used > before}
            self._timer = None
            if self._kept:
                self._watch()

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def _make_room(self, needed: float) -> None:
        for key in sorted(self._kept, key=lambda key: self._kept[key].used):
            if self.num_bytes + needed <= most_bytes():
                return
            del self._kept[key]

    def _watch(self) -> None:
        """Start a timer, as no page may be open when the time comes."""
        if self._timer is None:
            first = min(kept.used for kept in self._kept.values())
            self._timer = threading.Timer(max(first + self._idle_s - self._clock(), 0.0) + TICK_S, self.release_idle)
            self._timer.daemon = True
            self._timer.start()
