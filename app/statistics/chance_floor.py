"""The floor of a tail: how low the least accurate clients would be by chance, if all had the same true accuracy.

The accuracy of client i is then Binomial(n_i, p) / n_i with its n_i test samples and the pooled accuracy p, so that the
lowest of many clients are low even if no client is worse off.
"""

from collections.abc import Sequence

import numpy as np

from app.statistics.intervals import CONFIDENCE, Interval
from engine.core.streams import numpy_stream
from engine.metrics import tail_size

DRAWS, MIN_DRAWS = 10_000, 200
MAX_DRAWN = 20_000_000  # binomial numbers in all, about a second; with more there are fewer draws
_AT_ONCE = 1_000_000


def chance_floor(splits: Sequence[tuple[np.ndarray, float]], share: float, draws: int = DRAWS) -> Interval:
    """The mean over splits of the lowest ``share`` under equal accuracy, and 95 % of its draws.

    A split is the test samples of each client and the pooled accuracy. Clients without test samples have no accuracy
    and are left out, and so are splits without other clients. ``n`` is the number of clients in all splits.
    """
    known = [(sizes[sizes > 0].astype(int), accuracy) for sizes, accuracy in splits]
    known = [(sizes, accuracy) for sizes, accuracy in known if len(sizes)]
    clients = sum(len(sizes) for sizes, _ in known)
    if not clients:
        return Interval(np.nan, -np.inf, np.inf, 0)
    draws = max(min(draws, MAX_DRAWN // clients), MIN_DRAWS)
    lowest = np.mean([_lowest(*split, share, draws, i) for i, split in enumerate(known)], axis=0)
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(lowest, [edge, 1 - edge])
    return Interval(float(lowest.mean()), float(low), float(high), clients)


def _lowest(sizes: np.ndarray, accuracy: float, share: float, draws: int, split: int) -> np.ndarray:
    """[draws] the mean of the lowest clients."""
    stream, tail = numpy_stream(0, "chance floor", len(sizes), split), tail_size(len(sizes), share)
    parts, at_once = [], max(1, _AT_ONCE // len(sizes))
    for start in range(0, draws, at_once):
        drawn = stream.binomial(sizes, accuracy, size=(min(at_once, draws - start), len(sizes))) / sizes
        parts.append(np.partition(drawn, tail - 1, axis=1)[:, :tail].mean(axis=1))
    return np.concatenate(parts)
