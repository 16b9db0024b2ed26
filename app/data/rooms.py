"""Cached reads of rooms: each process reads a room at most once a second, however many readers it has."""

import time
from functools import lru_cache
from threading import Lock

from storage import RoomRecord, Store
from storage.rooms import ALPHABET, CODE_LENGTH

TICK_S = 1.0
MAX_CACHED = 200
MAX_INPUT_LENGTH = 40
_locks = tuple(Lock() for _ in range(16))


def parse_code(text: str) -> str | None:
    """Return the code in what a person typed, such as ``abcd-efgh`` or ``ABCD EFGH``; None if it is not a code."""
    code = "".join(text.split()).replace("-", "").upper() if len(text) <= MAX_INPUT_LENGTH else ""
    return code if len(code) == CODE_LENGTH and set(code) <= set(ALPHABET) else None


def spaced(code: str) -> str:
    """``ABCD EFGH``"""
    return f"{code[:4]} {code[4:]}"


def room(store: Store, code: str) -> RoomRecord | None:
    """Return the room as of the last second, or None if it is closed. Concurrent requests share one read."""
    with _locks[hash(code) % len(_locks)]:
        return _room(store, code, tick())


def tally(store: Store, room: RoomRecord) -> dict[str, int]:
    """The answers that the lecturer shows, read once for each version of the room."""
    with _locks[hash(room.code) % len(_locks)]:
        return _tally(store, room.code, room.version)


def tick() -> int:
    return int(time.monotonic() / TICK_S)


@lru_cache(maxsize=MAX_CACHED)
def _room(store: Store, code: str, tick: int) -> RoomRecord | None:
    return store.rooms.get(code)


@lru_cache(maxsize=MAX_CACHED)
def _tally(store: Store, code: str, version: int) -> dict[str, int]:
    return store.rooms.tally(code)
