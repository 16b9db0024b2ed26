"""Caches reads until their state changes: for running runs, only the newest result."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

What = TypeVar("What", bound=Hashable)
State = TypeVar("State", bound=Hashable)
Answer = TypeVar("Answer")
Read = Callable[[str, What, State], Answer]


def cached(max_results: int) -> Callable[[Read[What, State, Answer]], Read[What, State, Answer]]:
    """Caches ``read(url, what, state)`` for the same ``state``, up to ``max_results`` results.

    All callers get the same object and must not change it.
    """

    def decorate(read: Read[What, State, Answer]) -> Read[What, State, Answer]:
        answers: OrderedDict[tuple[str, What], tuple[State, Answer]] = OrderedDict()
        lock = threading.Lock()

        @wraps(read)
        def cached_read(url: str, what: What, state: State) -> Answer:
            with lock:
                known = answers.get((url, what))
                if known is not None and known[0] == state:
                    answers.move_to_end((url, what))
                    return known[1]
            answer = read(url, what, state)
            with lock:
                answers[url, what] = (state, answer)
                answers.move_to_end((url, what))
                while len(answers) > max_results:
                    answers.popitem(last=False)
            return answer

        return cached_read

    return decorate
