"""Mean over clients weighted by their test sizes: the accuracy over all test samples."""

import numpy as np

from engine.core.registry import METRICS


@METRICS.register("weighted_mean", title="Weighted mean", paper="CGPFL, table 1")
class WeightedMean:
    def __call__(self, values: np.ndarray, weights: np.ndarray) -> float:
        return np.average(values, weights=weights)
