"""Search spaces of hyper-parameters, declared with their ``Field``: ``json_schema_extra={"tune": (0.01, 10, "log")}``.

A space maps a number u in [0, 1) to a value:

    log       low (high / low)^u
    lin       low + u (high - low)
    int       low + floor(u (high - low + 1))
    intlog    floor(exp(ln low + u (ln(high + 1) - ln low)))
    choices   number floor(u n) of a list of n values

A bound may depend on the run: ``clients/2``, ``rounds/2``, ``layers-1``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, floor, isfinite, log, nextafter
from typing import Any

EXAMPLES = {"log": "[0.01, 10, log]", "lin": "[0, 1, lin]", "int": "[0, 3, int]", "intlog": "[2, 10, intlog]"}
SCALES = tuple(EXAMPLES)
SIZES = ("clients", "rounds", "layers")
MAX_CHOICES = 1000
_WORD = re.compile(rf"({'|'.join(SIZES)})(?:([/-])([1-9][0-9]*))?")


@dataclass(frozen=True)
class Space:
    """A range with a scale, or a list of choices. Bounds that are text depend on the sizes of a run."""

    low: float | str = 0.0
    high: float | str = 0.0
    scale: str = ""
    choices: tuple[Any, ...] = ()

    @classmethod
    def of(cls, raw: Any) -> "Space":
        """Reads ``(low, high, scale)`` or a list of choices. Raises ValueError with what is allowed."""
        if not isinstance(raw, list | tuple) or not raw:
            raise ValueError(f"must be {EXAMPLES['log']} with a scale of {', '.join(SCALES)}, or a list of values")
        if len(raw) != 3 or raw[2] not in SCALES:
            if len(raw) > MAX_CHOICES:
                raise ValueError(f"has {len(raw)} values; at most {MAX_CHOICES} are allowed")
            return cls(choices=tuple(raw))
        found = cls(_bound(raw[0]), _bound(raw[1]), raw[2])
        if found.is_resolved:
            found._check()
        return found

    @property
    def is_resolved(self) -> bool:
        """Whether both bounds are numbers."""
        return not isinstance(self.low, str) and not isinstance(self.high, str)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes of a run that the bounds depend on."""
        return tuple(_WORD.fullmatch(b)[1] for b in (self.low, self.high) if isinstance(b, str))  # type: ignore[index]

    @property
    def is_whole(self) -> bool:
        return self.scale in ("int", "intlog")

    @property
    def in_words(self) -> str:
        """``0.01 to 10 (log)``, or ``8, 16 or 32``."""
        if self.choices:
            *first, last = map(str, self.choices)
            return f"{', '.join(first)} or {last}" if first else last
        low, high = (b if isinstance(b, str) else f"{b:g}" for b in (self.low, self.high))
        return f"{low} to {high} ({self.scale})"

    @property
    def ends(self) -> tuple[Any, Any]:
        """The first and the last value."""
        if self.choices:
            return self.choices[0], self.choices[-1]
        assert self.is_resolved
        return (int(self.low), int(self.high)) if self.is_whole else (self.low, self.high)

    def to_list(self) -> list[Any]:
        return list(self.choices) if self.choices else [self.low, self.high, self.scale]

    def resolved(self, sizes: Mapping[str, int]) -> "Space":
        """The same space with numbers for bounds. A range that a small run leaves empty has only its low value.

        Raises ValueError if ``sizes`` lacks a size that a bound depends on, or gives an end that the scale cannot have.
        """
        if self.is_resolved:
            return self
        for size in self.sizes:
            if size not in sizes:
                example = EXAMPLES[self.scale]
                raise ValueError(f"the number of {size} is not known before the run; give numbers, as in {example}")
        low, high = (_number(bound, sizes) for bound in (self.low, self.high))
        found = replace(self, low=low, high=max(low, high))
        found._check_scale(" in this run")
        return found

    def value(self, u: float) -> Any:
        """The value at ``u`` in [0, 1); the space must be resolved."""
        if self.choices:
            return self.choices[floor(u * len(self.choices))]
        assert not isinstance(self.low, str) and not isinstance(self.high, str)
        low, high = self.low, self.high
        match self.scale:
            case "log":
                return low * (high / low) ** u
            case "lin":
                return low + u * (high - low)
            case "int":
                return floor(low + u * (high - low + 1))
            case _:
                return min(floor(exp(log(low) + u * (log(high + 1) - log(low)))), floor(high))

    def place(self, value: Any) -> float | None:
        """The ``u`` in [0, 1) of a value, the middle one of several; None if no ``u`` has it. For a resolved space."""
        if self.choices:
            return (self.choices.index(value) + 0.5) / len(self.choices) if value in self.choices else None
        assert not isinstance(self.low, str) and not isinstance(self.high, str)
        low, high = self.low, self.high
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            return None
        if low == high:
            return 0.5
        match self.scale:
            case "log":
                u = log(value / low) / log(high / low)
            case "lin":
                u = (value - low) / (high - low)
            case "int":
                u = (value - low + 0.5) / (high - low + 1)
            case _:
                u = (log(value * (value + 1)) / 2 - log(low)) / (log(high + 1) - log(low))
        return min(u, nextafter(1.0, 0.0))

    def _check(self) -> None:
        assert not isinstance(self.low, str) and not isinstance(self.high, str)
        if not self.low < self.high:
            raise ValueError(f"its low end {self.low:g} must be below its high end {self.high:g}")
        self._check_scale("")

    def _check_scale(self, where: str) -> None:
        assert not isinstance(self.low, str) and not isinstance(self.high, str)
        if self.scale in ("log", "intlog") and self.low <= 0:
            problem = f"its low end is {self.low:g}{where}, and must be above 0 on a logarithmic scale"
            raise ValueError(f"{problem}; use lin or int")
        if self.is_whole and (self.low % 1 or self.high % 1):
            raise ValueError(f"its ends {self.low:g} and {self.high:g} must be whole numbers on the scale {self.scale}")


def _bound(raw: Any) -> float | str:
    if isinstance(raw, str) and _WORD.fullmatch(raw):
        return raw
    if isinstance(raw, int | float) and not isinstance(raw, bool) and isfinite(raw):
        return raw
    raise ValueError(
        f"the bound {raw!r:.40} must be a number, or clients, rounds or layers, as in clients/2 or layers-1"
    )


def _number(bound: float | str, sizes: Mapping[str, int]) -> float:
    if not isinstance(bound, str):
        return bound
    found = _WORD.fullmatch(bound)
    assert found is not None  # checked when it was read
    size, sign, by = found.groups()
    return {None: sizes[size], "/": sizes[size] // int(by or 1), "-": sizes[size] - int(by or 0)}[sign]


def names_of(spaces: Iterable[str]) -> Sequence[str]:
    """The names of search spaces in drawing order: ``training.lr`` is column 0 of every method."""
    return sorted(spaces, key=lambda name: name != "training.lr")
