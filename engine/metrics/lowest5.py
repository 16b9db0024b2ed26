"""Mean of the lowest 5 % of the clients, at least one."""

import numpy as np

from engine.core.registry import METRICS
from engine.metrics import tail_size


@METRICS.register("lowest5", title="Lowest 5 %", paper="PLGU, section 6.2")
class Lowest5:
    def __call__(self, values: np.ndarray, weights: np.ndarray) -> float:
        return np.sort(values)[: tail_size(len(values))].mean()
