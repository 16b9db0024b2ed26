"""The first layer of a chain during proximal steps on one batch, which never leave the span of that batch.

The step theta <- theta - lr [E^T X + lam (theta - w)] of its weight stays in q^s theta_0 + (1 - q^s) w + span(X), with
q = 1 - lr lam and E [B, H] the error at the layer's outputs Z. So the steps need Z alone:

    Z <- q Z + lr lam Z_w - lr (X X^T + 1) E        M <- q M + E        (1: the bias column)

and theta is touched once, at the end. One X X^T a batch makes the steps independent of the number of features.
"""

import torch
from torch import Tensor

from engine.backends import narrow
from engine.core.params import ClientParams


class FirstLayer:
    """The first layer of A clients: ``outputs`` Z [A, B, H] are those on x [A, B, F] after each ``step``."""

    def __init__(self, theta: ClientParams, anchor: ClientParams, layer: str, x: Tensor, lr: float, lam: float) -> None:
        self.weight, self.bias = theta[f"{layer}.weight"], theta[f"{layer}.bias"]
        self.w, self.w_bias = anchor[f"{layer}.weight"], anchor[f"{layer}.bias"]
        self.x, self.lr, self.q, self.steps = x, lr, 1 - lr * lam, 0
        self.outputs = narrow.linear(x, self.weight, self.bias)
        self.pulled = narrow.linear(x, self.w, self.w_bias).mul_(lr * lam)
        self.gram = torch.bmm(x, x.mT) + 1
        self.total = torch.zeros_like(self.outputs)

    def step(self, error: Tensor) -> None:
        """A proximal step along the gradient that the ``error`` at the outputs gives."""
        self.steps += 1
        self.total.mul_(self.q).add_(error)
        self.outputs.mul_(self.q).add_(self.pulled)
        narrow.add_product(self.outputs, self.gram, error, -self.lr)

    def write(self) -> None:
        """Bring theta up to date with the steps."""
        kept = float(torch.tensor(self.q, dtype=torch.float64) ** self.steps)  # infinite, not an error, if they diverge
        self.weight.mul_(kept).add_(self.w, alpha=1 - kept).baddbmm_(self.total.mT, self.x, alpha=-self.lr)
        self.bias.mul_(kept).add_(self.w_bias, alpha=1 - kept).add_(self.total.sum(1), alpha=-self.lr)
