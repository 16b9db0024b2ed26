"""The parameters that a study tunes as axes: where a value is between the ends of its range."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

EDGE = 0.05  # the outer share of a range


@dataclass(frozen=True)
class Axis:
    """A tuned parameter. ``choices`` are the values of a parameter without a numeric range, else empty."""

    name: str  # as in the configuration: training.lr, lam
    symbol: str
    low: float = 0.0
    high: float = 1.0
    is_log: bool = False
    choices: tuple[Any, ...] = ()
    has_edges: bool = True  # whether the ends are those of the search space

    def place(self, value: Any) -> float:
        """From 0 at the low end to 1; outside of this for a default outside the range; NaN for a word."""
        if self.choices:
            known = list(self.choices)
            return (known.index(value) + 0.5) / len(known) if value in known else float("nan")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return float("nan")
        if self.high <= self.low:
            return 0.5
        if not self.is_log:
            return (value - self.low) / (self.high - self.low)
        return log(value / self.low) / log(self.high / self.low) if value > 0 else float("nan")

    def is_at_the_edge(self, value: Any) -> bool:
        """Whether a number is in the outer twentieth of the range, so that a wider range may be better."""
        return self.has_edges and not self.choices and not EDGE <= self.place(value) <= 1 - EDGE

    @property
    def ends(self) -> tuple[str, str]:
        if self.choices:
            return str(self.choices[0]), str(self.choices[-1])
        return f"{self.low:g}", f"{self.high:g}"


def value_in_words(value: Any) -> str:
    """``0.0123``, ``auto``."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def settings_in_words(axes: Sequence[Axis], settings: dict[str, Any]) -> str:
    """``η = 0.12, λ = 0.7``."""
    return ", ".join(f"{axis.symbol} = {value_in_words(settings[axis.name])}" for axis in axes if axis.name in settings)
