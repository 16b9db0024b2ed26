"""Where runs end at every stop of a dial: numbers that ship with the product (``benchmarks/story_dials.py``)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from engine.core.paths import ASSETS

EXAMPLES = ASSETS / "examples"
PIXELS = 8


@dataclass(frozen=True)
class DialExample:
    """Accuracies of the last round, fractions, by stop and seed."""

    command: str
    stops: tuple[str, ...]
    seeds: tuple[int, ...]
    lines: Mapping[str, np.ndarray]  # name: [stops, seeds]
    clients: Mapping[str, Sequence[np.ndarray]]  # method: [N] for each stop; over the seeds or of the first
    pictures: Mapping[str, np.ndarray]  # stop: [n, 8, 8] one image as n of the clients see it, 0 to 15

    @property
    def scope(self) -> str:
        """How the numbers of a text were averaged."""
        return f"Mean ± standard deviation over {self.over}."

    @property
    def over(self) -> str:
        return f"{len(self.seeds)} seeds"

    def at(self, line: str, stop: str) -> tuple[float, float]:
        """Mean and standard deviation over the seeds."""
        values = self.values_at(line, stop)
        return float(values.mean()), float(values.std(ddof=1))

    def values_at(self, line: str, stop: str) -> np.ndarray:
        """[seeds]"""
        return np.asarray(self.lines[line][self.stops.index(stop)])

    def clients_at(self, stop: str) -> dict[str, np.ndarray]:
        """[N] where each client ends, for every method."""
        return {method: values[self.stops.index(stop)] for method, values in self.clients.items()}


@cache
def load(name: str) -> DialExample:
    raw = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    lines = {line: np.array(values) for line, values in raw["lines"].items()}
    clients = {method: [np.array(own) for own in values] for method, values in raw["clients"].items()}
    pictures = {stop: np.stack([_unpack(text) for text in texts]) for stop, texts in raw["pictures"].items()}
    return DialExample(raw["command"], tuple(raw["stops"]), tuple(raw["seeds"]), lines, clients, pictures)


def pack(picture: np.ndarray) -> str:
    """A picture of 16 grays as a hexadecimal digit a pixel."""
    return "".join(f"{value:x}" for value in picture.ravel())


def _unpack(text: str) -> np.ndarray:
    return np.array([int(letter, 16) for letter in text]).reshape(PIXELS, PIXELS)
