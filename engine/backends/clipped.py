"""Any backend with each client's gradient clipped to a norm, as set by ``training.clip_norm``.

g <- g min(1, clip_norm / ||g||), with ||g|| over the parameters that ``out`` trains; g is the gradient of a mini-batch,
its L2 term (or a method's own objective) included. The proximal term, drift, weight decay and momentum are applied
afterwards, in the step. Second derivatives are those of the loss.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import Affine, Backend, Extras, Objective, clip_factor, scale_out
from engine.backends.wrapped import Wrapped
from engine.core.params import ClientParams, each
from engine.federation.batches import Batch


@dataclass(frozen=True)
class Clipped(Wrapped):
    clip_norm: float

    @property
    def unclipped(self) -> Backend:
        return self.inner.unclipped

    @property
    def is_repeatable(self) -> bool:
        return self.inner.is_repeatable

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
        gradient = {n: torch.zeros_like(p) for n, p in out.items()}
        losses = self.inner.accumulate(gradient, params, batch, 1.0, 0.0, objective, extras)
        norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradient.values()])
        whole = torch.linalg.vector_norm(norms, dim=0, dtype=torch.float64)
        factor = clip_factor(whole, self.clip_norm).to(norms.dtype)
        scale_out(out, params, alpha, beta, dict.fromkeys(out, 0.0))
        for name, target in out.items():
            target.addcmul_(gradient[name], each(factor, target), value=alpha)
        return losses
