"""FedAvg and SCAFFOLD side by side on the two clients of the story on drift."""

import numpy as np

from app.stories.quadratics import Clients, Method

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


class DriftRun:
    """Both methods with ``E`` local steps, from the same start."""

    def __init__(self, E: int) -> None:
        self.E = E
        self.methods = {
            name: Method(CLIENTS, E, LR, START, is_corrected)
            for name, is_corrected in zip(NAMES, (False, True), strict=True)
        }

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

    def advance(self, rounds: int) -> None:
        for _ in range(min(rounds, ROUNDS - self.round)):
            for method in self.methods.values():
                method.round()


def ended(E: int) -> DriftRun:
    """A finished run."""
    run = DriftRun(E)
    run.advance(ROUNDS)
    return run
