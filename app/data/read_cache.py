"""Caches reads until their state changes: for running runs, only the newest result."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

from app.data.lru import Lru

What = TypeVar("What", bound=Hashable)
State = TypeVar("State", bound=Hashable)
Answer = TypeVar("Answer")
Read = Callable[[str, What, State], Answer]


def cached(most: int) -> Callable[[Read[What, State, Answer]], Read[What, State, Answer]]:
    """Caches ``read(url, what, state)`` for the same ``state``, up to ``most`` results.

    All callers get the same object and must not change it.
    """

    def decorate(read: Read[What, State, Answer]) -> Read[What, State, Answer]:
        answers: Lru[tuple[str, What], tuple[State, Answer]] = Lru(most)

        @wraps(read)
        def ask(url: str, what: What, state: State) -> Answer:
            known = answers.get((url, what))
            if known is not None and known[0] == state:
                return known[1]
            answer = read(url, what, state)
            answers.put((url, what), (state, answer))
            return answer

        return ask

    return decorate
