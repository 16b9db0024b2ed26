"""The floor of a tail: how low the least accurate clients would be by chance, if all had the same true accuracy.

The accuracy of client i is then Binomial(n_i, p) / n_i with its n_i test samples and the pooled accuracy p, so that the
lowest of many clients are low even if no client is worse off.
"""

import numpy as np

from engine.core.statistics import CONFIDENCE, Interval
from engine.core.streams import numpy_stream
from engine.metrics import tail_size

DRAWS, MIN_DRAWS = 10_000, 200
MAX_DRAWN = 20_000_000  # binomial numbers in all, about a second; with more there are fewer draws
_AT_ONCE = 1_000_000


def chance_floor(sizes: np.ndarray, accuracy: float, share: float, draws: int = DRAWS) -> Interval:
    """[clients] test samples -> the mean of the lowest ``share`` under equal accuracy, and 95 % of the draws.

    Clients without test samples have no accuracy and are left out.
    """
    known = np.asarray(sizes)[np.asarray(sizes) > 0].astype(int)
    if not len(known):
        return Interval(np.nan, -np.inf, np.inf, 0)
    stream, tail = numpy_stream(0, "chance floor", len(known)), tail_size(len(known), share)
    draws = max(min(draws, MAX_DRAWN // len(known)), MIN_DRAWS)
    parts, size = [], max(1, _AT_ONCE // len(known))
    for start in range(0, draws, size):
        drawn = stream.binomial(known, accuracy, size=(min(size, draws - start), len(known))) / known
        parts.append(np.partition(drawn, tail - 1, axis=1)[:, :tail].mean(axis=1))
    lowest, edge = np.concatenate(parts), (1 - CONFIDENCE) / 2
    low, high = np.quantile(lowest, [edge, 1 - edge])
    return Interval(float(lowest.mean()), float(low), float(high), len(known))
