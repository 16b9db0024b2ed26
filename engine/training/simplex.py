"""The probability simplex {a >= 0, sum a = 1}: Euclidean projection, and the minimum of a quadratic form.

Duchi, Shalev-Shwartz, Singer, Chandra. Efficient Projections onto the l1-Ball for Learning in High Dimensions. ICML
2008. https://dl.acm.org/doi/10.1145/1390156.1390191, Figure 1.

Neither function raises on numbers: input that is not finite gives uniform weights, and the run ends in that round.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def project(v: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """The nearest point of the simplex to each row, in the Euclidean norm.

    u is the row in descending order, r the last index with u_r + (1 - sum_{j<=r} u_j) / r > 0, and the result is
    max(v + (1 - sum_{j<=r} u_j) / r, 0).
    """
    shifted = v.double()
    is_finite = shifted.isfinite().all(-1, keepdim=True)
    shifted = shifted.where(is_finite, 0.0)
    shifted = shifted - shifted.amax(-1, keepdim=True)  # changes no projection, and keeps the sums accurate
    u = shifted.sort(-1, descending=True).values
    rank = torch.arange(1, v.shape[-1] + 1, dtype=u.dtype, device=u.device)
    shifts = (1 - u.cumsum(-1)) / rank
    last = (rank * (u + shifts > 0)).amax(-1, keepdim=True).long() - 1
    return (shifted + shifts.gather(-1, last)).clamp_(min=0).to(v.dtype)


def least_quadratic(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n"]:
    """argmin a' P a on the simplex, for a symmetric positive definite P.

    With P = L L' and x = argmin ||L' x - L^-1 1|| over x >= 0 (non-negative least squares), a = x / sum x: the
    conditions of optimality of both problems agree up to the scale of x. Uniform where P is not positive definite in
    floating point.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls  # slow to import

    uniform = np.full(len(matrix), 1 / len(matrix))
    scale = np.abs(matrix).max(initial=0.0)
    if not np.isfinite(scale) or scale == 0:
        return uniform
    try:
        factor = np.linalg.cholesky(matrix / scale)
        x, _ = nnls(factor.T, solve_triangular(factor, np.ones(len(matrix)), lower=True))
    except (np.linalg.LinAlgError, RuntimeError):  # not positive definite; no convergence of nnls
        return uniform
    total = x.sum()
    return x / total if np.isfinite(total) and total > 0 else uniform
