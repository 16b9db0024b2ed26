"""All clients of a chunk in one computation: ``vmap(grad(functional_call))`` over stacked parameters."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, grad_and_value, vmap

from engine.backends import (
    Affine,
    Backend,
    ClippedSum,
    Extras,
    Objective,
    batch_weight,
    clip_factor,
    cross_entropy,
    scale_out,
)
from engine.core.devices import free_bytes
from engine.core.params import ClientParams, SharedParams
from engine.federation.batches import Batch
from engine.models import Model

_LIVE_BYTES = 12 * 2**20  # measured: MLR 20-100 clients, DNN 10-20
_GPU_SHARE = 0.6
_SAMPLE_BYTES = 16 * 2**20  # of the gradients of single samples that are held at once


@dataclass(frozen=True)
class Batched(Backend):
    model: Model
    name: str = "batched"

    @property
    def is_repeatable(self) -> bool:
        return True

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0) -> int:
        return live_chunk(model, batch_bytes, device, extra_bytes)

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
        trained = {n: params[n] for n in out}
        frozen = {n: p for n, p in params.items() if n not in out}
        gradients, losses = vmap(grad_and_value(self._loss(objective)))(
            trained, frozen, batch.x, batch.y, batch_weight(batch), dict(extras or {})
        )
        scale_out(out, params, alpha, beta, self.model.l2_of)
        for name, target in out.items():
            target.add_(gradients[name], alpha=alpha)
        return losses

    def clipped_sum(
        self,
        trained: Collection[str],
        params: ClientParams,
        batch: Batch,
        clip: float,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClippedSum:
        """Gradients of single samples, of so many at once that they fit ``_SAMPLE_BYTES``."""
        moved, frozen = {n: params[n] for n in trained}, {n: p for n, p in params.items() if n not in trained}
        gradient = {n: torch.zeros_like(p) for n, p in moved.items()}
        weight, loss = batch_weight(batch), self._loss(objective)

        def one(p: SharedParams, rest: SharedParams, x: Tensor, y: Tensor, own: Extras):  # type: ignore[no-untyped-def]
            return grad_and_value(loss)(p, rest, x[None], y[None], weight.new_ones(1), own)

        of_samples = vmap(vmap(one, in_dims=(None, None, 0, 0, None)))
        size = max(1, _SAMPLE_BYTES // sum(p.nbytes for p in moved.values()))
        losses, norms = weight.new_zeros(len(weight)), []
        for begin in range(0, weight.shape[1], size):
            part = slice(begin, begin + size)
            found, values = of_samples(moved, frozen, batch.x[:, part], batch.y[:, part], dict(extras or {}))
            squares = torch.stack([g.flatten(2).square().sum(2) for g in found.values()])
            norms.append(squares.sum(0).sqrt())
            share = weight[:, part] * clip_factor(norms[-1], clip)
            losses += (weight[:, part] * values).sum(1)
            for name, target in gradient.items():
                target.add_(share[:, None].bmm(found[name].flatten(2)).view_as(target))
        return ClippedSum(losses, gradient, torch.cat(norms, dim=1))

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        """Reverse over reverse, which every operation supports: the gradient of the derivative along ``vector``."""
        loss = self._loss(objective)

        def one(p: SharedParams, v: SharedParams, x: Tensor, y: Tensor, weight: Tensor, own: Extras) -> SharedParams:
            def along(q: SharedParams) -> Tensor:
                gradient = grad(loss)(q, {}, x, y, weight, own)
                return torch.stack([(g * v[n]).sum() for n, g in gradient.items()]).sum()

            return grad(along)(p)

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


def live_chunk(model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0, copies: int = 3) -> int:
    """The number of clients to compute at once.

    On a CPU their ``copies`` of the parameters, batches and ``extra_bytes`` fit the cache. On a GPU three copies and
    the batches fit a share of the free memory; ``copies`` and ``extra_bytes`` are ignored.
    """
    if device.type == "cuda":
        per_client = 4 * 3 * model.num_parameters + 2 * batch_bytes
        return max(1, int(_GPU_SHARE * free_bytes(device) / (8 * per_client)))
    return max(1, _LIVE_BYTES // (4 * copies * model.num_parameters + 2 * batch_bytes + extra_bytes))
