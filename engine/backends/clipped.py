"""Any backend with each client's gradient clipped to a norm, as set by ``training.clip_norm``.

g <- g min(1, clip_norm / ||g||), with ||g|| over the parameters that ``out`` trains; g is the gradient of a mini-batch,
its L2 term (or a method's own objective) included. The proximal term, drift, weight decay and momentum are applied
afterwards, in the step. Second derivatives are those of the loss.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import Backend, Extras, Objective, scale_out
from engine.core.params import ClientParams, each
from engine.federation.batches import Batch
from engine.models import Model


@dataclass(frozen=True)
class Clipped(Backend):
    inner: Backend
    clip_norm: float

    @property
    def name(self) -> str:
        return self.inner.name

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device) -> int:
        return self.inner.chunk_size(model, batch_bytes, device)

    def accumulate(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        alpha: float,
        beta: float,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> Float[Tensor, "A"]:
        gradient = {n: torch.zeros_like(p) for n, p in out.items()}
        losses = self.inner.accumulate(gradient, params, batch, 1.0, 0.0, objective, extras)
        norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradient.values()])
        whole = torch.linalg.vector_norm(norms, dim=0, dtype=torch.float64)  # single precision may not hold clip_norm
        factor = (self.clip_norm / whole.clamp(min=self.clip_norm)).to(norms.dtype)
        scale_out(out, params, alpha, beta, dict.fromkeys(out, 0.0))
        for name, target in out.items():
            target.addcmul_(gradient[name], each(factor, target), value=alpha)
        return losses

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        return self.inner.hessian_vector(params, vector, batch, objective, extras)

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        return self.inner.logits(model, params, x)

    def features(self, params: ClientParams, x: Tensor) -> Float[Tensor, "A B F"]:
        return self.inner.features(params, x)
