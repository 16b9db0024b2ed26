"""Heterogeneity of a partition, from its class counts ``[N, C]``. Both measures are in bits."""

import numpy as np

from engine.core.streams import numpy_stream

MAX_DISTINCT = 2000  # label distributions; more are compared in pairs that are drawn
NUM_PAIRS = 200_000  # keeps the standard error of distances, which are in [0, 1], below 0.0012
_BLOCK = 2**22  # numbers


def label_entropy(class_counts: np.ndarray) -> np.ndarray:
    """[N] entropy of each client's label distribution: 0 for one class, log2 C for equal shares of all classes."""
    return _entropy(_distributions(class_counts))


def mean_js_distance(class_counts: np.ndarray) -> float:
    """Mean Jensen-Shannon distance over all pairs of clients: 0 for equal, 1 for disjoint label distributions.

    The distance is the square root of the divergence H((p + q) / 2) - (H(p) + H(q)) / 2. Equal distributions are
    counted together. If there are more than 2,000 different ones, the mean is over 200,000 pairs of clients, always the
    same random ones; its standard error is then below 0.0012.
    """
    p = _distributions(class_counts)
    N = len(p)
    if N < 2:
        return 0.0
    distinct, times = np.unique(p, axis=0, return_counts=True)
    if len(distinct) > MAX_DISTINCT:
        return _mean_of_drawn_pairs(p)
    entropy, total = _entropy(distinct), 0.0
    for i in range(len(distinct) - 1):  # one row at a time, for memory of [N, C]
        found = _distances(distinct[i], distinct[i + 1 :], entropy[i] + entropy[i + 1 :])
        total += float(times[i] * (times[i + 1 :] * found).sum())
    return total / (N * (N - 1) / 2)


def _mean_of_drawn_pairs(p: np.ndarray) -> float:
    entropy, rng, N = _entropy(p), numpy_stream(0, "pairs of clients"), len(p)
    first, second = rng.integers(N, size=NUM_PAIRS), rng.integers(N - 1, size=NUM_PAIRS)
    second += second >= first  # another client
    blocks = np.array_split(np.stack([first, second]), -(-NUM_PAIRS * p.shape[1] // _BLOCK), axis=1)
    return sum(float(_distances(p[i], p[j], entropy[i] + entropy[j]).sum()) for i, j in blocks) / NUM_PAIRS


def _distances(p: np.ndarray, q: np.ndarray, entropies: np.ndarray) -> np.ndarray:
    """Of pairs; ``entropies`` are H(p) + H(q)."""
    return np.sqrt(np.maximum(_entropy((p + q) / 2) - entropies / 2, 0.0))


def _distributions(class_counts: np.ndarray) -> np.ndarray:
    counts = np.asarray(class_counts, dtype=np.float64)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def _entropy(p: np.ndarray) -> np.ndarray:
    """p log2 p, with 0 log 0 = 0."""
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=-1) + 0.0
