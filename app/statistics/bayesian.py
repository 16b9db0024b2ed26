"""The Bayesian signed-rank test: how probable is it that a method is better, equal in practice, or worse?

Benavoli, Mangili, Corani, Zaffalon, Ruggeri. A Bayesian Wilcoxon signed-rank test based on the Dirichlet process. ICML
2014. With z = (0, d_1 .. d_N) and weights w ~ Dirichlet(prior, 1, ..., 1):

    better = sum_ij w_i w_j [z_i + z_j > 2 rope]        worse with < -2 rope; equality counts half; the rest is equal
"""

from dataclasses import dataclass

import numpy as np

from engine.core.streams import numpy_stream

ROPE = 0.005  # differences up to half a point count as equal in practice
PRIOR = 0.5  # weight of the additional difference of 0
DRAWS = 50_000
MIN_BLOCKS = 5


@dataclass(frozen=True)
class Posterior:
    """The probabilities that worse, equal in practice and better is each the largest of the three."""

    worse: float
    equal: float
    better: float


def signed_rank_posterior(differences: np.ndarray, rope: float = ROPE, prior: float = PRIOR) -> Posterior:
    """[blocks] differences in one unit with ``rope``."""
    largest = np.bincount(posterior_draws(differences, rope, prior).argmax(axis=1), minlength=3) / DRAWS
    return Posterior(*map(float, largest))


def posterior_draws(differences: np.ndarray, rope: float = ROPE, prior: float = PRIOR) -> np.ndarray:
    """[DRAWS, 3]: worse, equal and better of every draw of the weights; a row adds up to 1."""
    z = np.concatenate([[0.0], differences])
    sums, edge = z[:, None] + z, 2 * rope
    stream = numpy_stream(0, "bayesian signed rank", len(differences))
    weights = stream.dirichlet([prior, *[1.0] * len(differences)], DRAWS)
    worse, better = (((weights @ _beyond(side * sums, edge)) * weights).sum(axis=1) for side in (-1, 1))
    return np.stack([worse, 1 - worse - better, better], axis=1)


def _beyond(sums: np.ndarray, edge: float) -> np.ndarray:
    """1 where a sum exceeds the edge, 1/2 where it equals it up to rounding, else 0."""
    is_at = np.isclose(sums, edge, rtol=0, atol=1e-12)
    return np.where(is_at, 0.5, (sums > edge).astype(float))
