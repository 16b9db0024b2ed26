"""Caches reads until their state changes: for running runs, only the newest result."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

from app.data.lru import Lru

What = TypeVar("What", bound=Hashable)
State = TypeVar("State", bound=Hashable)
Answer = TypeVar("Answer")
Read = Callable[[str, What, State], Answer]


def cached(max_results: int) -> Callable[[Read[What, State, Answer]], Read[What, State, Answer]]:
    """Caches ``read(url, what, state)`` for the same ``state``, up to ``max_results`` results.

    All callers get the same object and must not change it.
    """

    def decorate(read: Read[What, State, Answer]) -> Read[What, State, Answer]:
        answers: Lru[tuple[str, What], tuple[State, Answer]] = Lru(max_results)

        @wraps(read)
        def cached_read(url: str, what: What, state: State) -> Answer:
            known = answers.get((url, what))
            if known is not None and known[0] == state:
                return known[1]
            answer = read(url, what, state)
            answers.put((url, what), (state, answer))
            return answer

        return cached_read

    return decorate
