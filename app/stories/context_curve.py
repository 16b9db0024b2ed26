"""The results at every number of clusters, which ship with the product (``benchmarks/story_contexts.py``)."""

import json
from dataclasses import dataclass
from functools import cache

import numpy as np

from engine.core.paths import ASSETS

EXAMPLE = ASSETS / "examples" / "story_contexts.json"

NUM_CLIENTS, NUM_CONTEXTS = 20, 4
HEUR = "heur"
CLUSTERS = (*range(1, NUM_CLIENTS // 2 + 1), NUM_CLIENTS)
Stop = int | str
"""A number of clusters, or ``HEUR``."""


@dataclass(frozen=True)
class Guesses:
    """The numbers of clusters that the heuristic chose on several draws of one kind of clients."""

    training_samples: int
    noise: float
    K_hats: tuple[int, ...]

    @property
    def hits(self) -> int:
        return self.K_hats.count(NUM_CONTEXTS)


@dataclass(frozen=True)
class Example:
    """The shipped results; accuracies are means over clients, of the last round. Draw 0 is the one that is shown."""

    command: str
    accuracies: np.ndarray  # [K, draws] of CGPFL, for each of ``CLUSTERS``
    alone: np.ndarray  # [draws] LocalTrain
    together: np.ndarray  # [draws] FedAvg
    heuristic: np.ndarray  # [draws] CGPFL-Heur
    guesses: tuple[Guesses, ...]  # of clients as shown first, then of harder ones

    @property
    def num_draws(self) -> int:
        return len(self.alone)

    @property
    def K_hat(self) -> int:
        """What the heuristic chooses for the clients that are shown."""
        return self.guesses[0].K_hats[0]

    @property
    def best_K(self) -> int:
        return CLUSTERS[int(self.accuracies[:, 0].argmax())]

    def K_of(self, stop: Stop) -> int:
        return self.K_hat if isinstance(stop, str) else stop

    def goal(self, stop: Stop) -> float:
        """Where a run ends on the clients that are shown."""
        if isinstance(stop, str):
            return float(self.heuristic[0])
        return float(self.accuracies[CLUSTERS.index(stop), 0])


@cache
def example() -> Example:
    raw = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    guesses = tuple(Guesses(g["training_samples"], g["noise"], tuple(g["K_hats"])) for g in raw["guesses"])
    arrays = {name: np.array(raw[name]) for name in ("accuracies", "alone", "together", "heuristic")}
    return Example(raw["command"], guesses=guesses, **arrays)


def stops() -> dict[str, Stop]:
    """All stops of the dial in order, by their text; the heuristic's stop follows the K that it chooses."""
    found: dict[str, Stop] = {}
    for K in CLUSTERS:
        found[f"{K}"] = K
        if example().K_hat == K:
            found[HEUR] = HEUR
    return found
