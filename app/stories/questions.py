"""What a reader is asked: a question before a run, answered by a choice or a number, and exercises after it.

Right answers come from the shipped results, so that a question cannot disagree with the figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories.compared import word
from app.wording import percent, percent_pm

Guess = str | float
UNCLEAR = "No clear difference"


@dataclass(frozen=True)
class Choice:
    """A question with a few answers, one of them right."""

    text: str
    answers: Sequence[str]
    right: str

    def __post_init__(self) -> None:
        if self.right not in self.answers:
            raise ValueError(f"{self.right!r} is not among the answers to {self.text!r}")

    @classmethod
    def between(cls, text: str, first: str, second: str, side: int) -> "Choice":
        """Which of two is higher, or neither; ``side`` is ``compared.side`` of the first and the second."""
        return cls(text, (first, second, UNCLEAR), word(side, (first, UNCLEAR, second)))

    def of_run(self, run: Any) -> float | None:
        """A run alone does not settle a choice."""
        return None

    def verdict(self, guess: Guess | None, ended: float | None) -> str:
        """``You chose “Alone”. The answer is “One model”.``"""
        if guess is None:
            return f"The answer is “{self.right}”."
        if guess == self.right:
            return f"You chose “{guess}”. That is right."
        return f"You chose “{guess}”. The answer is “{self.right}”."


def whole_percent(x: float, pm: float | None = None) -> str:
    """``44 %``, ``44 ± 2 %``: for accuracies over few samples."""
    return percent(x, 0) if pm is None else percent_pm(x, pm, samples=1)


@dataclass(frozen=True)
class Estimate:
    """A question for a number. ``values`` [n] are the results of ``over``, for example of five seeds."""

    text: str
    values: np.ndarray
    over: str
    measure: Callable[[Any], float]  # of a run: this run's result
    stops: Sequence[float] = tuple(round(0.05 * i, 2) for i in range(21))
    say: Callable[..., str] = whole_percent

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def pm(self) -> float | None:
        """Standard deviation; None of a single value."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    def of_run(self, run: Any) -> float | None:
        return float(self.measure(run))

    def verdict(self, guess: Guess | None, ended: float | None) -> str:
        """``You guessed 60 %. This run: 45 %. 5 seeds: 44 ± 2 %.``"""
        guessed = [] if guess is None else [f"You guessed {self.say(guess)}."]
        this_run = [] if ended is None else [f"This run: {self.say(ended)}."]
        return " ".join([*guessed, *this_run, f"{self.over.capitalize()}: {self.say(self.mean, self.pm)}."])


Question = Choice | Estimate


@dataclass(frozen=True)
class Exercise:
    """A task with its answer, which is folded."""

    task: str
    answer: str
