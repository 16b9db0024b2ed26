"""A loop over clients with plain autograd: the reference.

``backend: auto`` uses it for convolutions and embedding tables on a CPU. Above the body, it then takes the gradients
that an objective gives.
"""

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import (
    Affine,
    Backend,
    ClippedSum,
    Extras,
    Objective,
    OnFeatures,
    add_at_features,
    batch_weight,
    cross_entropy,
    scale_out,
)
from engine.backends.batched import Batched
from engine.core.params import ClientParams, SharedParams, concat, row, take
from engine.federation.batches import Batch
from engine.models import FasterAlone, Model


@dataclass(frozen=True)
class Loop(Backend):
    model: Model
    uses_given_gradients: bool = False  # by an ``OnFeatures``; not in a model whose computation is rounded
    name: str = "loop"

    @cached_property
    def _alone(self) -> Model:
        """The same model, whose layers know that they compute one client alone."""
        if not any(isinstance(layer, FasterAlone) for layer in self.model.module.modules()):
            return self.model
        module = copy.deepcopy(self.model.module)
        for layer in module.modules():
            if isinstance(layer, FasterAlone):
                layer.is_alone = True
        return replace(self.model, module=module)

    def _fastest(self, x: Tensor) -> Model:
        """The model for outputs and gradients; second derivatives are faster with ``model``."""
        return self._alone if x.device.type == "cpu" else self.model

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0) -> int:
        return 1

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
        takes_given = self.uses_given_gradients and self.model.has_linear_head
        if takes_given and isinstance(objective, OnFeatures) and objective.gradients:
            return self._accumulate_on_features(out, params, batch, alpha, beta, objective, extras or {})
        losses = []
        for client in range(batch.size):
            variables = _variables(self._row(params, client), tuple(out))
            loss = _loss(self._fastest(batch.x), variables, batch, client, objective, extras)
            gradients = torch.autograd.grad(loss, [variables[n] for n in out], materialize_grads=True)
            own = slice(client, client + 1)
            before = beta.part(own) if isinstance(beta, Affine) else beta
            one_out = take(out, own)
            scale_out(one_out, take(params, own), alpha, before, self.model.l2_of)
            for target, gradient in zip(one_out.values(), gradients, strict=True):
                target[0].add_(gradient, alpha=alpha)
            losses.append(loss.detach())
        return torch.stack(losses)

    def _accumulate_on_features(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        alpha: float,
        beta: float | Affine,
        objective: OnFeatures,
        extras: Extras,
    ) -> Float[Tensor, "A"]:
        """The gradient above the body by ``objective.gradients``, and that of the body by autograd."""
        assert objective.gradients is not None
        model, losses = self._fastest(batch.x), []
        l2_of = objective.l2_with(model.l2_of)
        for client in range(batch.size):
            own = slice(client, client + 1)
            x, y, weight = _samples(batch, client)
            variables = _variables(self._row(params, client), tuple(n for n in out if n in model.body))
            body = {n: v for n, v in variables.items() if v.requires_grad}
            features = model.features(variables, x)[None]
            one_out, one = take(out, own), take(params, own)
            above = objective.gradients(model, one, features.detach(), y[None], weight[None], take(dict(extras), own))
            leaves = list(body.values())
            gradients = torch.autograd.grad(features, leaves, above.features, materialize_grads=True) if body else ()
            before = beta.part(own) if isinstance(beta, Affine) else beta
            add_at_features(one_out, one, above.gradients, alpha, before, l2_of)
            for name, gradient in zip(body, gradients, strict=True):
                one_out[name][0].add_(gradient, alpha=alpha)
            losses.append(above.losses)
        return torch.cat(losses)

    def clipped_sum(
        self,
        trained: Collection[str],
        params: ClientParams,
        batch: Batch,
        clip: float,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClippedSum:
        """One client after the other; the samples of a client at once, as in the batched backend."""
        batched, weight, own = Batched(self.model), batch_weight(batch), dict(extras or {})
        parts = []
        for i in range(batch.size):
            rows = slice(i, i + 1)
            part = Batch(batch.x[rows], batch.y[rows], weight[rows], batch.counts[rows])
            parts.append(batched.clipped_sum(trained, take(params, rows), part, clip, objective, take(own, rows)))
        losses, norms = torch.cat([p.losses for p in parts]), torch.cat([p.norms for p in parts])
        return ClippedSum(losses, concat([p.gradient for p in parts]), norms)

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        products = []
        for client in range(batch.size):
            variables = _variables(self._row(params, client), tuple(params))
            inputs = list(variables.values())
            loss = _loss(self.model, variables, batch, client, objective, extras)
            first = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
            along = torch.stack([(g * vector[n][client]).sum() for n, g in zip(variables, first, strict=True)]).sum()
            second = torch.autograd.grad(along, inputs, materialize_grads=True)
            products.append(dict(zip(variables, second, strict=True)))
        l2_of = self.model.l2_of
        return {n: torch.stack([p[n] for p in products]) + l2_of[n] * vector[n] for n in params}

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        chosen = self._fastest(x) if model is self.model else model
        return self.outputs(chosen.logits, params, x)

    def features(self, params: ClientParams, x: Tensor) -> Float[Tensor, "A B F"]:
        return self.outputs(self._fastest(x).features, params, x)

    def outputs(self, forward: Callable[[SharedParams, Tensor], Tensor], params: ClientParams, x: Tensor) -> Tensor:
        return torch.stack([forward(self._row(params, i), x[i]) for i in range(len(x))])

    def _row(self, params: ClientParams, client: int) -> SharedParams:
        return self.model.laid_out(row(params, client))


def _loss(
    model: Model,
    variables: SharedParams,
    batch: Batch,
    client: int,
    objective: Objective | None,
    extras: Extras | None,
) -> Tensor:
    x, y, weight = _samples(batch, client)
    own = {n: e[client] for n, e in (extras or {}).items()}
    return (objective or cross_entropy)(model, variables, x, y, weight, own)


def _samples(batch: Batch, client: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and weights without padding: what an implementation of one client would compute."""
    count = max(1, batch.counts[client])  # a batch that was drawn empty is one of padding, of weight 0
    return batch.x[client, :count], batch.y[client, :count], batch_weight(batch)[client, :count]


def _variables(params: SharedParams, trained: tuple[str, ...]) -> SharedParams:
    return {n: p.detach().requires_grad_(n in trained) for n, p in params.items()}
