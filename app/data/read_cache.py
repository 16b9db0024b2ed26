"""Caches reads until the version of what they read changes: for running runs, only the newest result."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

from app.data.lru import Lru

What = TypeVar("What", bound=Hashable)
Version = TypeVar("Version", bound=Hashable)
Answer = TypeVar("Answer")
Read = Callable[[str, What, Version], Answer]


def cached(max_results: int) -> Callable[[Read[What, Version, Answer]], Read[What, Version, Answer]]:
    """Caches ``read(url, what, version)`` for the same ``version``, up to ``max_results`` results.

    All callers get the same object and must not change it.
    """

    def decorate(read: Read[What, Version, Answer]) -> Read[What, Version, Answer]:
        answers: Lru[tuple[str, What], tuple[Version, Answer]] = Lru(max_results)

        @wraps(read)
        def cached_read(url: str, what: What, version: Version) -> Answer:
            known = answers.get((url, what))
            if known is not None and known[0] == version:
                return known[1]
            answer = read(url, what, version)
            answers.put((url, what), (version, answer))
            return answer

        return cached_read

    return decorate
