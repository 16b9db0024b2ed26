"""Runs of the examples are chosen by default only where there are no others."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class MaybeExample(Protocol):
    @property
    def example(self) -> bool: ...


T = TypeVar("T", bound=MaybeExample)


def own_or_examples(found: Sequence[T]) -> list[T]:
    """The runs or experiments that are no examples; all if there are only examples."""
    return [one for one in found if not one.example] or list(found)
