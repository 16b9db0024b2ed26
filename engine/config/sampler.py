"""Points of a search space: a pure function of split and trial, so nothing has to be stored or replayed.

Only the later points of ``tpe`` depend on results: ``engine.config.tpe``.

Column j of a split is the same for every method, so trial k of all methods has the same learning rate. Sobol points are
scrambled (Owen 1998): every 2^m of them have one value in each of 2^m equal bins of every column.
"""

from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float

Sampler = Literal["sobol", "random", "tpe"]
MAX_TRIALS = 512
MAX_COLUMNS = 32  # parameters of a method that can be tuned
_LOG2_POINTS = 9  # 2^9 = MAX_TRIALS; the first 2^m points are the same however many are drawn


def point(sampler: Sampler, split: int, trial: int, dimensions: int) -> Float[np.ndarray, "dimensions"]:
    """The point in [0, 1)^d of trial 1, 2, ...; trial 0 has the defaults."""
    if not 1 <= trial < MAX_TRIALS:
        raise ValueError(f"trial {trial}: points exist for trials 1 to {MAX_TRIALS - 1}; trial 0 has the defaults")
    if sampler != "random":
        return _sobol(split)[trial - 1, :dimensions]
    from engine.core.streams import numpy_stream  # imports torch

    return numpy_stream(0, "tune", split, trial).random(dimensions)


@lru_cache(maxsize=100)
def _sobol(split: int) -> Float[np.ndarray, "points columns"]:
    """All columns at once: the scrambling of a column depends on how many are drawn with it."""
    from scipy.stats.qmc import Sobol  # takes a second to import

    from engine.core.streams import numpy_stream

    points = Sobol(MAX_COLUMNS, scramble=True, rng=numpy_stream(0, "tune", split)).random_base2(_LOG2_POINTS)
    points.setflags(write=False)
    return points
