"""Population standard deviation over clients."""

import numpy as np

from engine.core.registry import METRICS


@METRICS.register("std", title="Standard deviation", paper="GPFL, fairness table")
class Std:
    def __call__(self, values: np.ndarray, weights: np.ndarray) -> float:
        return values.std()
