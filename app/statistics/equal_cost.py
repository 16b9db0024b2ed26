"""Accuracy at equal cost: what each method reached before it had spent a budget of megabytes or gradients."""

from collections.abc import Sequence

import numpy as np

SHARES = (1.0, 0.5, 0.25)  # of what the cheapest method spends in all


def budgets(totals: Sequence[float]) -> tuple[float, ...]:
    """The total of the cheapest method that spends anything, a half and a quarter of it; none if all are free."""
    spent = [total for total in totals if total > 0]
    return tuple(share * min(spent) for share in SHARES) if spent else ()


def accuracy_at(budget: float, cost: np.ndarray, accuracy: np.ndarray) -> float:
    """The accuracy of the last evaluated round that costs no more; NaN, "not yet", if the first one costs more.

    ``cost`` [rounds] is cumulative; ``accuracy`` [rounds] is NaN in rounds without evaluation.
    """
    affordable = np.flatnonzero(np.isfinite(accuracy) & (cost <= budget * (1 + 1e-12)))
    return float(accuracy[affordable[-1]]) if len(affordable) else float("nan")
