"""A backend that reports how many gradients it computes: one for each sample and pass, two for a Hessian product."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from engine.backends import Affine, Extras, Objective
from engine.backends.wrapped import Wrapped
from engine.core.params import ClientParams
from engine.federation.batches import Batch


@dataclass(frozen=True)
class Counted(Wrapped):
    count: Callable[[int], None]  # is called with the number of new gradients

    def accumulate(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        alpha: float,
        beta: float | Affine,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> Float[Tensor, "A"]:
        self.count(sum(batch.counts))
        return self.inner.accumulate(out, params, batch, alpha, beta, objective, extras)

    def proximal_steps(
        self, theta: ClientParams, anchor: ClientParams, batch: Batch, lr: float, lam: float, steps: int
    ) -> Float[Tensor, "A"]:
        self.count(steps * sum(batch.counts))
        return self.inner.proximal_steps(theta, anchor, batch, lr, lam, steps)

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        self.count(2 * sum(batch.counts))
        return self.inner.hessian_vector(params, vector, batch, objective, extras)
