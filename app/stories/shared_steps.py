"""The steps of one training, computed once for all readers who watch it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from app.data.turns import TURNS, leave_if_outdated


class Step(Protocol):
    """The state of a training after a round, or after a part of one. It never changes: readers share it."""

    @property
    def round(self) -> int: ...

    @property
    def value(self) -> float:
        """The one number that a mark keeps of the run."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to see."""
        ...


StepT = TypeVar("StepT", bound=Step)


@dataclass
class _Training(Generic[StepT]):
    rest: Iterator[StepT] | None  # None after the last step
    steps: list[StepT] = field(default_factory=list)

    def has(self, number: int) -> bool:
        return self.rest is None or len(self.steps) >= number

    def next(self) -> None:
        assert self.rest is not None
        for step in self.rest:
            self.steps.append(step)
            return
        self.rest = None  # releases the data and the models


class SharedSteps(Generic[StepT]):
    """The steps that the generator ``start()`` yields. Who first needs a step computes it, in a turn."""

    def __init__(self, start: Callable[[], Iterator[StepT]]) -> None:
        self._start = start
        self._training = _Training(start())

    def after(self, number: int, more: int) -> list[StepT]:
        """Up to ``more`` steps after the first ``number``; fewer at the end.

        An exception in a step starts the training over for the next reader: a generator cannot go on after one.
        """
        training, until = self._training, number + more
        if not training.has(until):
            with TURNS.turn():
                training = self._training
                while not training.has(until):
                    leave_if_outdated()
                    try:
                        training.next()
                    except BaseException:
                        self._training = _Training(self._start())
                        raise
        return training.steps[number:until]


class Run(Generic[StepT]):
    """A reader's run: the shared steps from the untrained one to the reader's latest."""

    def __init__(self, shared: SharedSteps[StepT]) -> None:
        self._shared = shared
        self.steps = shared.after(0, 1)

    @property
    def now(self) -> StepT:
        return self.steps[-1]

    @property
    def round(self) -> int:
        return self.now.round

    @property
    def value(self) -> float:
        return self.now.value

    @property
    def is_settled(self) -> bool:
        return self.now.is_settled

    def advance(self, steps: int) -> None:
        """Go on by some steps, at most to the end."""
        self.steps += self._shared.after(len(self.steps), steps)
