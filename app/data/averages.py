"""Averages over the clients that have a value; malicious clients are in none."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def mean_of_known(values: np.ndarray) -> np.ndarray:
    """[R, N] -> [R]: the mean over the clients that have a value; NaN if no client has one."""
    known = np.isfinite(values)
    n = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1, dtype=np.float64)
    return np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)


def malicious_of(partition: Mapping[str, Any] | None) -> list[int]:
    """The malicious clients of a run's partition."""
    return np.flatnonzero((partition or {}).get("malicious") or ()).tolist()


def benign(values: np.ndarray, malicious: Sequence[int]) -> np.ndarray:
    """Values by client, [..., N], with NaN for malicious clients."""
    if not len(malicious) or not values.size:
        return values
    return np.where(np.isin(np.arange(values.shape[-1]), malicious), np.nan, values)
