"""A cache of the most recently used values."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """At most ``max_size`` values, least recently used first out. Threads may share it."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._put(key, value)

    def get_or_put(self, key: K, make: Callable[[], V]) -> V:
        """The value of ``key``. Other threads wait while ``make`` runs, so it must be quick."""
        with self._lock:
            value = self._values[key] if key in self._values else make()
            self._put(key, value)
            return value

    def _put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._max_size:
            self._values.popitem(last=False)
