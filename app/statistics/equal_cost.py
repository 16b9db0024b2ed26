"""Accuracy at equal cost: what each method reached before it had spent a budget of megabytes or gradients."""

from collections.abc import Sequence

import numpy as np

SHARES = (1.0, 0.5, 0.25)  # of the largest budget


def budgets(totals: Sequence[float], firsts: Sequence[float]) -> tuple[float, ...]:
    """The largest budget, a half and a quarter of it; none if all methods are free.

    The largest is the smallest total above zero within which at least half of the methods were evaluated: the total of
    the cheapest method, unless too few others were evaluated by then. ``totals`` and ``firsts`` of the methods: what
    they spend in all, and until their first evaluated round.
    """
    spent = sorted(total for total in totals if total > 0)
    if not spent:
        return ()
    enough = (total for total in spent if 2 * sum(first <= total for first in firsts) >= len(firsts))
    largest = next(enough, spent[-1])
    return tuple(share * largest for share in SHARES)


def accuracy_at(budget: float, cost: np.ndarray, accuracy: np.ndarray) -> float:
    """The accuracy of the last evaluated round that costs no more; NaN if the first one costs more.

    ``cost`` [rounds] is cumulative; ``accuracy`` [rounds] is NaN in rounds without evaluation.
    """
    affordable = np.flatnonzero(np.isfinite(accuracy) & (cost <= budget * (1 + 1e-12)))
    return float(accuracy[affordable[-1]]) if len(affordable) else float("nan")
