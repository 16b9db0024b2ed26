"""The geometric median of the updates: the point with the least sum of distances to them (RFA).

Pillutla, Kakade, Harchaoui. Robust Aggregation for Federated Learning. IEEE Transactions on Signal Processing 70, 2022.
https://arxiv.org/abs/1912.13445, Algorithm 2 (smoothed Weiszfeld).

    z <- sum_i p_i Delta_i                                p_i: the method's weights
    until sum_i p_i ||Delta_i - z|| gains less than 1e-9:
        b_i <- p_i / max(nu, ||Delta_i - z||)
        z <- sum_i b_i Delta_i / sum_i b_i

z is kept as its weights: ||Delta_i - z||^2 = sum_j b_j D_ij - 1/2 sum_jk b_j b_k D_jk, from the squared distances D of
all pairs.

Pitfalls: ByzFL takes three steps from the origin, which need not be near the updates.
"""

from dataclasses import dataclass

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.aggregators import Aggregator, Combined, squared_distances
from engine.core.registry import AGGREGATORS, Options

GAIN = 1e-9


class GeometricMedianOptions(Options):
    nu: float = Field(
        1e-6, gt=0, le=1e6, title="ν", description="Lower bound of the distances, for numerical stability."
    )
    iterations: int = Field(100, ge=1, le=10_000, description="Maximum number of iterations.")


@AGGREGATORS.register("geometric_median", title="Geometric median", paper="Pillutla et al., 2022 (RFA)")
@dataclass(frozen=True)
class GeometricMedian(Aggregator):
    options: GeometricMedianOptions

    def combine(self, delta: Float[Tensor, "A P"], weights: Float[Tensor, "A"], num_malicious: int) -> Combined:
        squares, p = squared_distances(delta), weights.double()
        if not bool(squares.isfinite().all()):
            return Combined(weights, fell_back=True)
        best = share = p / p.sum()
        distances = _distances(squares, share)
        least = float(p @ distances)
        for _ in range(self.options.iterations):
            pull = p / distances.clamp(min=self.options.nu)
            share = pull / pull.sum()
            distances = _distances(squares, share)
            objective = float(p @ distances)
            if objective >= least - GAIN:
                break
            best, least = share, objective
        return Combined(best.to(weights.dtype))

    def needs(self, num_malicious: int) -> int:
        return 3  # of two, it is the one with the larger weight


def _distances(squares: Float[Tensor, "A A"], share: Float[Tensor, "A"]) -> Float[Tensor, "A"]:
    """||Delta_i - sum_j share_j Delta_j|| of all i."""
    to_all = squares @ share
    return (to_all - (share @ to_all) / 2).clamp(min=0).sqrt()
