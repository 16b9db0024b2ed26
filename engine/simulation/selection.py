"""The choice among the trials of a method, from validation data only.

    value   summary over clients of the last round's validation accuracies, or minus the mean loss; mean over seeds
    error   sqrt(sum_i w_i^2 v_i (1 - v_i) / n_i)           v_i: accuracy of the best trial, n_i: validation samples
    tied    trials with a value of at least the best's minus the error

Here w_i is 1/N for a mean and n_i / sum_j n_j for the weighted mean. For a mean of the lowest clients the error is the
standard deviation of that mean over draws of Binomial(n_i, v_i) / n_i. A choice by loss has no error.

Clients without validation samples are left out, and malicious ones, who differ between seeds.

A trial that failed, diverged or has no finite value is the worst. Of values within 1e-9 the one with the lower
validation loss wins, then the lower number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from jaxtyping import Float

from engine.config.tune import Select
from engine.core.streams import numpy_stream
from engine.metrics import tail_size

EQUAL = 1e-9
SHARES = {"lowest10": 0.10, "lowest5": 0.05}
DRAWS, MIN_DRAWS = 1000, 20
MAX_DRAWN = 1_000_000  # binomial numbers in all; with more there are fewer draws


@dataclass(frozen=True)
class Validation:
    """The last evaluation of a trial with one seed; NaN for clients without a value."""

    accuracy: Float[np.ndarray, "N"]
    loss: Float[np.ndarray, "N"]
    sizes: Float[np.ndarray, "N"]

    @classmethod
    def of_benign(
        cls,
        accuracy: Float[np.ndarray, "N"],
        loss: Float[np.ndarray, "N"],
        sizes: Float[np.ndarray, "N"],
        malicious: np.ndarray | Sequence[bool] | None,
    ) -> "Validation":
        """The values of the clients that are not malicious, if there is an attack; else all."""
        left_out = False if malicious is None else malicious
        accuracy, loss = (np.where(left_out, np.nan, values.astype(float)) for values in (accuracy, loss))
        return cls(accuracy, loss, sizes)

    def value(self, select: Select) -> float:
        """The value by which settings are chosen, larger is better; NaN if no client has a value."""
        known = np.isfinite(self.loss if select == "loss" else self.accuracy)
        values, sizes = (self.loss if select == "loss" else self.accuracy)[known], self.sizes[known]
        if not known.any():
            return float("nan")
        if select == "loss":
            return -float(values.mean())
        if select == "weighted_mean":
            return float((values * sizes).sum() / sizes.sum())
        if select in SHARES:
            return float(np.sort(values)[: tail_size(len(values), SHARES[select])].mean())
        return float(values.mean())


@dataclass(frozen=True)
class Chosen:
    """The trial chosen; ``value`` and ``error`` are None if every trial failed."""

    trial: int
    value: float | None
    error: float | None
    considered: int
    tied: int


def value_of(seeds: Sequence[Validation | None], select: Select) -> float:
    """The mean over seeds; -inf if a seed failed or has no finite value. Larger is better."""
    values = [-inf if one is None else one.value(select) for one in seeds]
    return float(np.mean(values)) if all(map(isfinite, values)) else -inf


def choose(trials: Mapping[int, Sequence[Validation | None]], select: Select) -> Chosen:
    """The best of the trials; each has one validation for each seed, None where that run failed."""
    values = {number: value_of(seeds, select) for number, seeds in trials.items()}
    highest = max(values.values())
    if highest == -inf:
        return Chosen(min(trials), None, None, len(trials), len(trials))
    equal = [number for number, value in values.items() if value >= highest - EQUAL]
    best = min(equal, key=lambda number: (-value_of(trials[number], "loss"), number))
    error = None if select == "loss" else _standard_error([one for one in trials[best] if one is not None], select)
    tied = sum(value >= highest - max(error or 0.0, EQUAL) for value in values.values())
    return Chosen(best, abs(values[best]) if select == "loss" else values[best], error, len(trials), tied)


def _standard_error(seeds: Sequence[Validation], select: Select) -> float:
    """Of ``value_of`` these seeds; a client's accuracies are averaged over the seeds that have one first."""
    values, sizes = np.stack([one.accuracy for one in seeds]), seeds[0].sizes
    known = np.isfinite(values).any(axis=0) & (sizes > 0)
    v, n = np.nanmean(values[:, known], axis=0), sizes[known]
    if select in SHARES:
        stream, tail = numpy_stream(0, "standard error", len(v)), tail_size(len(v), SHARES[select])
        draws = max(min(DRAWS, MAX_DRAWN // len(v)), MIN_DRAWS)
        drawn = (np.partition(stream.binomial(n.astype(int), v) / n, tail - 1) for _ in range(draws))
        return float(np.std([accuracies[:tail].mean() for accuracies in drawn]))
    w = n / n.sum() if select == "weighted_mean" else 1 / len(v)
    return sqrt(float((w**2 * v * (1 - v) / n).sum()))
