"""Mean of the highest 5 % of the clients, at least one."""

import numpy as np

from engine.core.registry import METRICS
from engine.metrics import tail_size


@METRICS.register("top5", title="Top 5 %", paper="PLGU, section 6.2")
class Top5:
    def __call__(self, values: np.ndarray, weights: np.ndarray) -> float:
        return np.sort(values)[-tail_size(len(values)) :].mean()
