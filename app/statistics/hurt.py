"""How many clients a method hurts and helps, against training alone or one model for all.

With equal methods about half of the clients that differ are hurt by chance, so both numbers belong together, with the
sign test between them.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import ndtri

from app.statistics.intervals import CONFIDENCE, ROUNDING
from app.statistics.signed_rank import sign_test_p


@dataclass(frozen=True)
class HurtAndHelped:
    """Counts of clients; ``low`` and ``high`` bound the share hurt (Wilson), ``p`` is that of the sign test."""

    hurt: int
    helped: int
    clients: int
    low: float
    high: float
    p: float


def hurt_and_helped(differences: np.ndarray) -> HurtAndHelped:
    """[clients] accuracy minus that of the reference, each averaged over seeds."""
    known = differences[np.isfinite(differences)]
    hurt, helped = int((known < -ROUNDING).sum()), int((known > ROUNDING).sum())
    low, high = wilson(hurt, len(known))
    return HurtAndHelped(hurt, helped, len(known), low, high, sign_test_p(helped, hurt))


def wilson(count: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of a share (Wilson. JASA 1927); (0, 1) of nothing."""
    if n == 0:
        return 0.0, 1.0
    z, share = -float(ndtri((1 - confidence) / 2)), count / n
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return max(0.0, center - half), min(1.0, center + half)
