"""Standard deviation over mean; NaN where the mean is 0."""

import numpy as np

from engine.core.registry import METRICS


@METRICS.register("cv", title="Coefficient of variation", paper="GPFL, fairness table")
class Cv:
    def __call__(self, values: np.ndarray, weights: np.ndarray) -> float:
        return values.std() / values.mean() if values.mean() else np.nan
