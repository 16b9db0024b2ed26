"""All clients of a chunk in one computation: ``vmap(grad(functional_call))`` over stacked parameters."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from engine.backends import Backend, Extras, Objective, batch_weight, cross_entropy, scale_out
from engine.core.devices import free_bytes
from engine.core.params import ClientParams, SharedParams
from engine.federation.batches import Batch
from engine.models import Model

_LIVE_BYTES = 8 * 2**20  # measured: MLR 5-50 clients, DNN 8-20
_GPU_SHARE = 0.6


@dataclass(frozen=True)
class Batched(Backend):
    model: Model
    name: str = "batched"

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device) -> int:
        return live_chunk(model, batch_bytes, device)

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
        trained = {n: params[n] for n in out}
        frozen = {n: p for n, p in params.items() if n not in out}
        gradients, losses = vmap(grad_and_value(self._loss(objective)))(
            trained, frozen, batch.x, batch.y, batch_weight(batch), dict(extras or {})
        )
        scale_out(out, params, alpha, beta, self.model.l2_of)
        for name, target in out.items():
            target.add_(gradients[name], alpha=alpha)
        return losses

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        """Reverse over reverse: the gradient of the slope along ``vector``; works for every operation that has one."""
        loss = self._loss(objective)

        def one(p: SharedParams, v: SharedParams, x: Tensor, y: Tensor, weight: Tensor, own: Extras) -> SharedParams:
            def slope(q: SharedParams) -> Tensor:
                gradient = grad(loss)(q, {}, x, y, weight, own)
                return torch.stack([(g * v[n]).sum() for n, g in gradient.items()]).sum()

            return grad(slope)(p)

        product = vmap(one)(params, vector, batch.x, batch.y, batch_weight(batch), dict(extras or {}))
        return {n: p + self.model.l2_of[n] * vector[n] for n, p in product.items()}

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        return vmap(model.logits)(params, x)

    def features(self, params: ClientParams, x: Tensor) -> Float[Tensor, "A B F"]:
        return vmap(self.model.features)(params, x)

    def _loss(self, objective: Objective | None):  # type: ignore[no-untyped-def]  # torch.func takes any callable
        chosen = objective or cross_entropy

        def loss(
            trained: SharedParams, frozen: SharedParams, x: Tensor, y: Tensor, weight: Tensor, own: Extras
        ) -> Tensor:
            return chosen(self.model, {**frozen, **trained}, x, y, weight, own)

        return loss


def live_chunk(model: Model, batch_bytes: int, device: torch.device, copies: int = 3) -> int:
    """Clients whose ``copies`` of the parameters and batch fit the cache (CPU), or the free memory (GPU)."""
    if device.type == "cuda":
        per_client = 4 * 3 * model.num_parameters + 2 * batch_bytes
        return max(1, int(_GPU_SHARE * free_bytes(device) / (8 * per_client)))
    return max(1, _LIVE_BYTES // (4 * copies * model.num_parameters + 2 * batch_bytes))
