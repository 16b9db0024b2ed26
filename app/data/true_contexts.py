"""The true contexts of the clients: when they are groups that clusters can be compared with."""

from collections.abc import Sequence

import numpy as np


def are_groups(contexts: Sequence[int] | np.ndarray | None) -> bool:
    """Whether the contexts [N] are known and have two clients or more on average.

    Otherwise nearly every client has a context of its own, as when each draws its classes at random, and neither the
    numbers nor the agreement of clusters with them mean anything.
    """
    return contexts is not None and 0 < 2 * len(np.unique(contexts)) <= len(contexts)
