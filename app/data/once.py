"""A value that is computed by the first reader who needs it, in a turn."""

from collections.abc import Callable
from typing import Generic, TypeVar

from app.data.turns import TURNS

T = TypeVar("T")


class Once(Generic[T]):
    """The value of ``compute``, computed when first needed. After an exception, the next ``get`` tries again."""

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute: Callable[[], T] | None = compute
        self._values: list[T] = []  # none or one

    def get(self) -> T:
        if not self._values:
            with TURNS.turn():
                if self._compute is not None:
                    self._values.append(self._compute())
                    self._compute = None  # releases what it refers to
        return self._values[0]
