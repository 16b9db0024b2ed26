"""Hand-derived gradients for chains of linear layers with ReLU between (``mlr``, ``logistic``, ``dnn``), in one bmm.

For cross-entropy the error at the logits is (softmax - onehot) * weight; it goes back through W and the ReLU masks,
and each weight's gradient error^T x is added by ``baddbmm_`` straight into ``out``, so that an SGD step reads and
writes the parameters once. The gradient of an objective on features starts at the features instead of the logits. Other
objectives are left to the batched backend.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn

from engine.backends import (
    Affine,
    Backend,
    ClippedSum,
    Extras,
    FeatureGradients,
    Objective,
    OnFeatures,
    add_at_features,
    batch_weight,
    clip_factor,
    cross_entropy_error,
    gram,
    narrow,
    scale_out,
    where_positive,
)
from engine.backends.batched import Batched, live_chunk
from engine.core.params import ClientParams
from engine.federation.batches import Batch
from engine.models import Model, OneColumn


def linear_chain(module: nn.Module) -> tuple[str, ...] | None:
    """Names of the linear layers, or None where the model is anything but Flatten, Linear, ReLU, Linear, ..."""
    leaves = [(n, m) for n, m in module.named_modules() if not list(m.children())]
    if not leaves or not isinstance(leaves[0][1], nn.Flatten):
        return None
    kinds: list[tuple[type[nn.Module], ...]] = [
        (nn.Linear,) if i % 2 == 0 else (nn.ReLU,) for i in range(len(leaves) - 1)
    ]
    if kinds:
        kinds[-1] = (nn.Linear, OneColumn)
    fits = len(kinds) % 2 == 1 and all(type(m) in kind for (_, m), kind in zip(leaves[1:], kinds, strict=True))
    return tuple(n for n, m in leaves if isinstance(m, nn.Linear)) if fits else None


@dataclass(frozen=True)
class Fused(Backend):
    model: Model
    chain: tuple[str, ...]
    name: str = "fused"
    _batched: Batched = field(init=False)
    is_one_column: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_batched", Batched(self.model))
        last = self.model.module.get_submodule(self.chain[-1])
        object.__setattr__(self, "is_one_column", isinstance(last, OneColumn))

    @cached_property
    def _depth(self) -> int:
        """The number of layers of the body."""
        return sum(f"{layer}.weight" in self.model.body for layer in self.chain)

    @property
    def is_repeatable(self) -> bool:
        return True

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0) -> int:
        return live_chunk(model, batch_bytes, device, extra_bytes, copies=1)  # steps write no gradients

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
        if isinstance(objective, OnFeatures):
            return self._accumulate_on_features(out, params, batch, alpha, beta, objective, extras)
        if objective is not None:
            return self._batched.accumulate(out, params, batch, alpha, beta, objective, extras)
        inputs = self._inputs(params, batch.x.flatten(2))
        losses, error = cross_entropy_error(self._outputs(params, inputs[-1]), batch)
        if self.is_one_column:
            error = error[..., 1:]
        errors = self._backward(out, params, inputs, error)
        if isinstance(beta, Affine) or any(self.model.l2_of[n] for n in out):
            scale_out(out, params, alpha, beta, self.model.l2_of)
            beta = 1.0
        self._add_gradients(out, inputs, errors, alpha, beta)
        return losses

    def _accumulate_on_features(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        alpha: float,
        beta: float | Affine,
        objective: OnFeatures,
        extras: Extras | None,
    ) -> Float[Tensor, "A"]:
        """Differentiate the loss at the features by its own gradients or by autograd, and the body by hand."""
        inputs = self._inputs(params, batch.x.flatten(2), self._depth)
        features = inputs.pop().detach()
        body = {n: p for n, p in out.items() if n in self.model.body}
        if objective.gradients is not None and self.model.has_linear_head:
            given = (self.model, params, features, batch.y, batch_weight(batch), extras or {})
            losses, gradients, error = objective.gradients(*given)
        else:
            losses, gradients, error = self._gradients_at_features(out, params, batch, features, objective, extras)
        if body:
            errors = self._backward(body, params, inputs, where_positive(features, error))
        add_at_features(out, params, gradients, alpha, beta, objective.l2_with(self.model.l2_of))
        if body:
            self._add_gradients(body, inputs, errors, alpha, 1.0)
        return losses

    def _gradients_at_features(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        features: Tensor,
        objective: OnFeatures,
        extras: Extras | None,
    ) -> FeatureGradients:
        """By autograd, for what ``out`` trains. At the features it is arbitrary if the body is not trained.

        Otherwise it shares no memory with the others, since it is overwritten: autograd may return views of one tensor
        for features and for what a method adds to them.
        """
        has_body = any(n in self.model.body for n in out)
        rest = {n: p for n, p in params.items() if n not in self.model.body}
        trained = {n: rest[n].detach().requires_grad_() for n in out if n in rest}
        with torch.enable_grad():
            leaf = features.detach().requires_grad_(has_body)
            own = {**rest, **trained}
            losses = objective.loss(self.model, own, leaf, batch.y, batch_weight(batch), extras or {})
        leaves = [*trained.values(), *([leaf] if has_body else [])]
        gradients = torch.autograd.grad(losses.sum(), leaves, materialize_grads=True)
        at_features, memory = gradients[-1], gradients[-1].untyped_storage().data_ptr()
        if any(gradient.untyped_storage().data_ptr() == memory for gradient in gradients[:-1]):
            at_features = at_features.clone()
        return FeatureGradients(losses.detach(), dict(zip(trained, gradients, strict=False)), at_features)

    def proximal_steps(
        self, theta: ClientParams, anchor: ClientParams, batch: Batch, lr: float, lam: float, steps: int
    ) -> Float[Tensor, "A"]:
        x = batch.x.flatten(2)
        if not self.carries_outputs(x.shape[1], x.shape[2], steps):
            return super().proximal_steps(theta, anchor, batch, lr, lam, steps)
        first, losses = gram.FirstLayer(theta, anchor, self.chain[0], x, lr, lam), []
        later = {n: p for n, p in theta.items() if not n.startswith(f"{self.chain[0]}.")}
        for _ in range(steps):
            inputs, outputs = [x], first.outputs
            for layer in self.chain[1:]:
                inputs.append(outputs.relu())
                outputs = _linear(theta, layer, inputs[-1])
            loss, error = cross_entropy_error(outputs, batch)
            losses.append(loss)
            errors = self._backward(theta, theta, inputs, error)
            self._add_gradients(later, inputs, errors, -lr, 1 - lr * lam)
            for name, p in later.items():
                p.add_(anchor[name], alpha=lr * lam)
            assert errors[0] is not None
            first.step(errors[0])
        first.write()
        return torch.stack(losses).mean(0)

    def carries_outputs(self, batch_size: int, num_features: int, steps: int) -> bool:
        """Whether proximal steps can carry the outputs of a plain first layer, and take fewer operations so.

        Per sample: X X^T, three passes through the weight and one product with X X^T a step, or two passes a step.
        """
        layer = self.chain[0]
        if self.is_one_column or self.model.l2 or f"{layer}.bias" not in self.model.names:
            return False
        width = self.model.module.get_parameter(f"{layer}.weight").shape[0]
        carried = batch_size * num_features + 3 * num_features * width + steps * batch_size * width
        return carried < 2 * steps * num_features * width

    def clipped_sum(
        self,
        trained: Collection[str],
        params: ClientParams,
        batch: Batch,
        clip: float,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClippedSum:
        """Norms without gradients: a sample's gradient of a layer is e x^T, of its bias e; so ||e||^2 (||x||^2 + 1).

        Errors e are then scaled, and the sum is the product of an ordinary step. Goodfellow, "Efficient Per-Example
        Gradient Computations", 2015.
        """
        if objective is not None:
            return self._batched.clipped_sum(trained, params, batch, clip, objective, extras)
        inputs = self._inputs(params, batch.x.flatten(2))
        losses, error = cross_entropy_error(self._outputs(params, inputs[-1]), batch)
        if self.is_one_column:
            error = error[..., 1:]
        gradient = {n: torch.empty_like(params[n]) for n in trained}
        errors = self._backward(gradient, params, inputs, error)
        weight, squares = batch_weight(batch), torch.zeros_like(error[..., 0])
        for layer, x, e in zip(self.chain, inputs, errors, strict=True):
            if e is not None:
                of_layer = torch.zeros_like(squares)
                if f"{layer}.weight" in gradient:
                    of_layer += x.square().sum(-1)
                if f"{layer}.bias" in gradient:
                    of_layer += 1
                squares += e.square().sum(-1) * of_layer
        norms = squares.sqrt_() / weight.where(weight > 0, 1.0)  # errors have the factor ``weight``
        factor = clip_factor(norms, clip)[..., None]
        for e in errors:
            if e is not None:
                e.mul_(factor)
        self._add_gradients(gradient, inputs, errors, 1.0, 0.0)
        return ClippedSum(losses, gradient, norms)

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        """The gradient's derivative along ``vector``: every term of the two passes has one, with ReLU masks fixed."""
        if objective is not None:
            return self._batched.hessian_vector(params, vector, batch, objective, extras)
        inputs = self._inputs(params, batch.x.flatten(2))
        tangents: list[Tensor | None] = [None]  # derivatives of the inputs along ``vector``; 0 for the first one
        for layer, x, after in zip(self.chain, inputs, inputs[1:], strict=False):
            tangents.append(where_positive(after, _tangent(params, vector, layer, x, tangents[-1])))
        of_outputs = _tangent(params, vector, self.chain[-1], inputs[-1], tangents[-1])
        error, error_tangent = self._error_and_tangent(self._outputs(params, inputs[-1]), of_outputs, batch)
        product: ClientParams = {}
        for i, layer in reversed(list(enumerate(self.chain))):
            x, x_tangent, weight = inputs[i], tangents[i], f"{layer}.weight"
            product[weight] = error_tangent.mT.bmm(x)
            product[f"{layer}.bias"] = error_tangent.sum(1)
            if x_tangent is not None:
                product[weight].baddbmm_(error.mT, x_tangent)
                error_tangent = where_positive(x, error_tangent.bmm(params[weight]).baddbmm_(error, vector[weight]))
                error = where_positive(x, error.bmm(params[weight]))
        return {n: torch.add(product[n], v, alpha=self.model.l2_of[n]) for n, v in vector.items()}

    def _error_and_tangent(self, logits: Tensor, tangent: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The error at the last layer's outputs, and its tangent, given the ``tangent`` of these outputs."""
        if self.is_one_column:
            tangent = torch.cat([torch.zeros_like(tangent), tangent], dim=-1)
        _, error = cross_entropy_error(logits, batch)
        shares = narrow.log_softmax(logits).exp_()
        error_tangent = shares * (tangent - (shares * tangent).sum(-1, keepdim=True)) * batch_weight(batch)[..., None]
        return (error[..., 1:], error_tangent[..., 1:]) if self.is_one_column else (error, error_tangent)

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        return self._outputs(params, self._inputs(params, x.flatten(2))[-1])

    def features(self, params: ClientParams, x: Tensor) -> Float[Tensor, "A B F"]:
        return self._inputs(params, x.flatten(2), self._depth)[-1]

    def _inputs(self, params: ClientParams, x: Tensor, depth: int | None = None) -> list[Tensor]:
        """The input of every layer, or of the first ``depth`` layers and what comes after them."""
        inputs = [x]
        for layer in self.chain[: len(self.chain) - 1 if depth is None else depth]:
            inputs.append(_linear(params, layer, inputs[-1]).relu_())
        return inputs

    def _outputs(self, params: ClientParams, x: Tensor) -> Tensor:
        """The logits, from the input of the last layer."""
        logits = _linear(params, self.chain[-1], x)
        return torch.cat([torch.zeros_like(logits.mT), logits.mT], dim=1).mT if self.is_one_column else logits

    def _backward(
        self, out: ClientParams, params: ClientParams, inputs: list[Tensor], error: Tensor
    ) -> list[Tensor | None]:
        """The error at the output of the layers with these ``inputs``, down to the first layer that ``out`` trains.

        ``error`` is the error at the output of the last one.
        """
        trained = [any(n.startswith(f"{layer}.") for n in out) for layer in self.chain[: len(inputs)]]
        first = trained.index(True)
        errors: list[Tensor | None] = [None] * len(inputs)
        for i in reversed(range(first, len(inputs))):
            errors[i] = error
            if i > first:
                error = where_positive(inputs[i], error.bmm(params[f"{self.chain[i]}.weight"]))
        return errors

    def _add_gradients(
        self, out: ClientParams, inputs: list[Tensor], errors: list[Tensor | None], alpha: float, beta: float
    ) -> None:
        """out <- beta * out + alpha * gradient, layer by layer."""
        for layer, x, e in zip(self.chain, inputs, errors, strict=False):
            if e is None:
                continue
            if f"{layer}.weight" in out:
                out[f"{layer}.weight"].baddbmm_(e.transpose(1, 2), x, beta=beta, alpha=alpha)
            if f"{layer}.bias" in out:
                bias = out[f"{layer}.bias"]
                if beta == 0:
                    bias.zero_()
                elif beta != 1:
                    bias.mul_(beta)
                bias.add_(e.sum(1), alpha=alpha)


def _tangent(params: ClientParams, vector: ClientParams, layer: str, x: Tensor, x_tangent: Tensor | None) -> Tensor:
    """The derivative of a layer's outputs, with its parameters along ``vector`` and its inputs along ``x_tangent``."""
    tangent = _linear(vector, layer, x)
    if x_tangent is not None:
        narrow.add_product(tangent, x_tangent, params[f"{layer}.weight"].mT, 1.0)
    return tangent


def _linear(params: ClientParams, layer: str, x: Tensor) -> Tensor:
    return narrow.linear(x, params[f"{layer}.weight"], params.get(f"{layer}.bias"))
