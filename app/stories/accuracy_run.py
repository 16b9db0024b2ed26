"""A run that reports each client's test accuracy."""

import numpy as np

from app.stories.mini_run import MiniRun


class AccuracyRun(MiniRun):
    """One or more methods side by side on the same clients."""

    @property
    def accuracies(self) -> list[np.ndarray]:
        """[N] for each method, in the order of the configuration: accuracy of the client's own model."""
        return [result.arrays["personalized.accuracy"] for result in self.results]

    @property
    def value(self) -> float:
        """The first method's mean over the clients."""
        return float(self.accuracies[0].mean())
