"""Summaries over clients: one number from the values of all clients with test data. One file per summary.

Every summary is ``(values, weights) -> float``; ``weights`` are the clients' test sizes. NaN values (clients without
test samples) are removed first; the result is NaN if no client is left.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.core.errors import PluginBroken, shown
from engine.core.registry import METRICS, Entry

TAIL_SHARE = 0.05


def tail_size(num_clients: int, share: float = TAIL_SHARE) -> int:
    """The number of clients in the lowest or highest ``share``: max(1, round(share n))."""
    return max(1, round(share * num_clients))


def summarize_clients(values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """[N] values and test sizes -> every registered summary by name."""
    known = ~np.isnan(values)
    values, weights = values[known].astype(np.float64), weights[known].astype(np.float64)
    if not len(values):
        return {entry.name: float("nan") for entry in METRICS}
    return {entry.name: _summary(entry, values, weights) for entry in METRICS}


def _summary(entry: Entry, values: np.ndarray, weights: np.ndarray) -> float:
    """Each summary gets arrays of its own, since a plugin may sort them in place."""
    found = entry.make()(values.copy(), weights.copy())
    try:
        return float(found)
    except (TypeError, ValueError):
        raise PluginBroken(f"metric {entry.name} must return a number, not {shown(found)}") from None


def of_benign(values: np.ndarray, malicious: Sequence[bool] | np.ndarray | None) -> np.ndarray:
    """[N] values, NaN for malicious clients, which no summary counts."""
    return values if malicious is None else np.where(malicious, np.nan, values)


def best_round_score(
    model: str,
    scalars: Mapping[str, float],
    arrays: Mapping[str, np.ndarray],
    val_sizes: Sequence[int] | np.ndarray,
    malicious: Sequence[bool] | np.ndarray | None = None,
) -> float:
    """The score of a round: a model's weighted mean accuracy over benign clients, on validation data if there is any.

    The best round is the first with the largest score that is finite.
    """
    accuracy, sizes = arrays.get(f"{model}.val_accuracy"), np.array(val_sizes)
    if accuracy is None or not sizes.sum():
        return scalars.get(f"{model}.weighted_mean", np.nan)
    return summarize_clients(np.where(sizes > 0, of_benign(accuracy, malicious), np.nan), sizes)["weighted_mean"]
