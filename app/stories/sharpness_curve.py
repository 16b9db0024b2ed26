"""Where every sharpness radius ends: results that ship with the product (``benchmarks/story_left_behind.py``)."""

import json
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from engine.core.paths import ASSETS

EXAMPLE = ASSETS / "examples" / "story_left_behind.json"

RADII = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
NUM_CLIENTS, NUM_LEFT_BEHIND = 40, 2  # lowest 5 %
SAMPLES = 35  # at most, that a client is tested on
STEPS = np.linspace(-1, 1, 21)  # of the cross-section: 1 is as long as the weights of a unit


@dataclass(frozen=True)
class Standing:
    """The state of two runs after a round, FedAvg first."""

    accuracies: np.ndarray  # [2, N] of each client on its own test samples
    sections: np.ndarray = field(repr=False)  # [2, steps] loss around the model on all clients' training samples

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.accuracies.mean(1))

    @property
    def lowest5(self) -> np.ndarray:
        return lowest5(self.accuracies)


@dataclass(frozen=True)
class Check:
    """A control run, which asks whether the same gain is possible without the radius."""

    mean: np.ndarray  # [draws]
    lowest5: np.ndarray  # [draws]


@dataclass(frozen=True)
class Example:
    """The shipped results, of the last round. Draw 0 is the one that is shown; 0 is plain FedAvg."""

    command: str
    mean: np.ndarray  # [rho, draws] mean accuracy of the clients
    lowest5: np.ndarray  # [rho, draws]
    accuracies: np.ndarray  # [rho, N] of each client, in the draw that is shown
    sections: np.ndarray  # [rho, steps] loss around the model, in the draw that is shown
    train_sizes: np.ndarray  # [N]
    digits: tuple[str, ...]  # that each client holds
    checks: dict[str, Check]

    @property
    def num_draws(self) -> int:
        return self.mean.shape[1]

    @property
    def best_rho(self) -> float:
        """With the best lowest 5 %, on average over the draws."""
        return RADII[int(self.lowest5.mean(1).argmax())]

    def ended(self, rho: float) -> Standing:
        """FedAvg and ``rho``, in the draw that is shown."""
        both = [0, RADII.index(rho)]
        return Standing(self.accuracies[both], self.sections[both])

    def gains(self, rho: float) -> np.ndarray:
        """[draws] what ``rho`` adds to the lowest 5 % of FedAvg."""
        return np.asarray(self.lowest5[RADII.index(rho)] - self.lowest5[0])


@cache
def example() -> Example:
    raw = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    arrays = {n: np.array(raw[n]) for n in ("mean", "lowest5", "accuracies", "sections", "train_sizes")}
    shown = arrays["accuracies"]  # the file is rounded: what is shown comes from the clients shown
    arrays["mean"][:, 0], arrays["lowest5"][:, 0] = shown.mean(1), lowest5(shown)
    checks = {name: Check(np.array(c["mean"]), np.array(c["lowest5"])) for name, c in raw["checks"].items()}
    return Example(raw["command"], **arrays, digits=tuple(raw["digits"]), checks=checks)


def lowest5(accuracies: np.ndarray) -> np.ndarray:
    """[..., N] -> [...]: the mean over the lowest 5 % of the clients."""
    return np.asarray(np.sort(accuracies, axis=-1)[..., :NUM_LEFT_BEHIND].mean(-1))
