"""FedAvg and SCAFFOLD side by side on the two clients of the story on drift."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from app.stories.quadratics import Clients, Method
from app.stories.shared_steps import Run

LR, ROUNDS = 0.3, 60
START = np.array([-1.6, 1.7])
NAMES = ("FedAvg", "SCAFFOLD")


def _curvature(steep: float, flat: float, degrees: float) -> np.ndarray:
    """[2, 2] steep along a direction, flat across it."""
    angle = np.deg2rad(degrees)
    axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.asarray(axes @ np.diag([steep, flat]) @ axes.T)


CLIENTS = Clients(
    curvatures=np.stack([_curvature(1.0, 0.1, 20), _curvature(1.0, 0.1, 75)]),
    optima=np.array([[1.6, 1.0], [-1.0, -1.2]]),
)


@dataclass(frozen=True)
class DriftStep:
    """Both methods after a round."""

    methods: Mapping[str, Method]

    @property
    def round(self) -> int:
        return len(self.methods["FedAvg"].server) - 1

    @property
    def value(self) -> float:
        """FedAvg's distance from the minimum."""
        return float(self.methods["FedAvg"].distances[-1])

    @property
    def is_settled(self) -> bool:
        return self.round >= ROUNDS


DriftRun = Run[DriftStep]


def untrained(E: int) -> DriftStep:
    """Both methods with ``E`` local steps, at the same start."""
    return DriftStep(
        {
            name: Method.untrained(CLIENTS, E, LR, START, is_corrected=is_corrected)
            for name, is_corrected in zip(NAMES, (False, True), strict=True)
        }
    )


def steps(E: int) -> Iterator[DriftStep]:
    step = untrained(E)
    yield step
    while not step.is_settled:
        step = DriftStep({name: method.round() for name, method in step.methods.items()})
        yield step
