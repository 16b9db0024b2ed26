"""Heterogeneity of a partition, from its class counts ``[N, C]``. Both measures are in bits."""

import numpy as np


def label_entropy(class_counts: np.ndarray) -> np.ndarray:
    """[N] entropy of each client's label distribution: 0 for one class, log2 C for equal shares of all classes."""
    return _entropy(_distributions(class_counts))


def mean_js_distance(class_counts: np.ndarray) -> float:
    """Mean Jensen-Shannon distance over all pairs of clients: 0 for equal, 1 for disjoint label distributions.

    The distance is the square root of the divergence H((p + q) / 2) - (H(p) + H(q)) / 2.
    """
    p = _distributions(class_counts)
    entropy = _entropy(p)
    total, pairs = 0.0, len(p) * (len(p) - 1) / 2
    for i in range(len(p) - 1):  # one row at a time, for memory of [N, C]
        divergence = _entropy((p[i] + p[i + 1 :]) / 2) - (entropy[i] + entropy[i + 1 :]) / 2
        total += float(np.sqrt(np.maximum(divergence, 0.0)).sum())
    return total / pairs if pairs else 0.0


def _distributions(class_counts: np.ndarray) -> np.ndarray:
    counts = np.asarray(class_counts, dtype=np.float64)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def _entropy(p: np.ndarray) -> np.ndarray:
    """p log2 p, with 0 log 0 = 0."""
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=-1) + 0.0
