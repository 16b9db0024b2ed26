"""Proximal steps of a linear model that never leave the span of the batch.

theta <- theta - lr [E(theta)^T X + lam (theta - w)] stays in q^s theta_0 + (1 - q^s) w + span(X), q = 1 - lr lam, since
the gradient is E^T X with E [B, C] the errors at the logits. So the steps run on logits [B, C]:

    Z <- q Z + lr lam Z_w - lr (X X^T + 1) E        M <- q M + E        (1: the bias column)

and theta is touched once, at the end. One X X^T a batch makes the steps independent of the number of features.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import cross_entropy_error
from engine.core.params import ClientParams
from engine.federation.batches import Batch


def proximal_steps(
    layer: str, theta: ClientParams, anchor: ClientParams, batch: Batch, lr: float, lam: float, steps: int
) -> Float[Tensor, "A"]:
    """``steps`` proximal steps on one batch, written into ``theta``; returns the mean of the steps' data losses."""
    x, weight, bias = batch.x.flatten(2), theta[f"{layer}.weight"], theta[f"{layer}.bias"]
    w, w_bias = anchor[f"{layer}.weight"], anchor[f"{layer}.bias"]
    logits = torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))
    pulled = torch.baddbmm(w_bias[:, None], x, w.transpose(1, 2)) * (lr * lam)
    gram = torch.bmm(x, x.transpose(1, 2)) + 1
    q, total, losses = 1 - lr * lam, torch.zeros_like(logits), []
    kept = float(torch.tensor(q, dtype=torch.float64) ** steps)  # infinite, not an error, where the steps diverge
    for _ in range(steps):
        loss, error = cross_entropy_error(logits, batch)
        losses.append(loss)
        total.mul_(q).add_(error)
        logits = torch.baddbmm(logits.mul_(q).add_(pulled), gram, error, alpha=-lr)
    weight.mul_(kept).add_(w, alpha=1 - kept).baddbmm_(total.transpose(1, 2), x, alpha=-lr)
    bias.mul_(kept).add_(w_bias, alpha=1 - kept).add_(total.sum(1), alpha=-lr)
    return torch.stack(losses).mean(0)
