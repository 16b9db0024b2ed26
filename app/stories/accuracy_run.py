"""A run of which the reader sees how well each client's test samples are classified."""

import numpy as np

from app.stories.mini_run import MiniRun


class AccuracyRun(MiniRun):
    """One or several methods side by side on the same clients."""

    @property
    def accuracies(self) -> list[np.ndarray]:
        """[N] for each method, in the order of the configuration: of the model that a client would use."""
        return [result.arrays["personalized.accuracy"] for result in self.results]

    @property
    def value(self) -> float:
        """The first method's mean over the clients."""
        return float(self.accuracies[0].mean())
