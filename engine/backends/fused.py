"""Hand-derived gradients for chains of linear layers with ReLU between (``mlr``, ``logistic``, ``dnn``), in one bmm.

For cross-entropy the error at the logits is (softmax - onehot) * weight; it goes back through W and the ReLU masks,
and each weight's gradient error^T x is added by ``baddbmm_`` straight into ``out``, so that an SGD step reads and
writes the parameters once. Other objectives and second derivatives are left to the batched backend.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from engine.backends import Backend, Extras, Objective, cross_entropy_error, gram, scale_out
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
        if objective is not None:
            return self._batched.accumulate(out, params, batch, alpha, beta, objective, extras)
        inputs, logits = self._forward(params, batch.x.flatten(2))
        losses, error = cross_entropy_error(logits, batch)
        if self.is_one_column:
            error = error[..., 1:]
        errors = self._backward(out, params, inputs, error)
        if any(self.model.l2_of[n] for n in out):
            scale_out(out, params, alpha, beta, self.model.l2_of)
            beta = 1.0
        for layer, x, e in zip(self.chain, inputs, errors, strict=True):
            if e is None:
                continue
            if f"{layer}.weight" in out:
                out[f"{layer}.weight"].baddbmm_(e.transpose(1, 2), x, beta=beta, alpha=alpha)
            if f"{layer}.bias" in out:
                bias = out[f"{layer}.bias"]
                (bias.mul_(beta) if beta else bias.zero_()).add_(e.sum(1), alpha=alpha)
        return losses

    def proximal_steps(
        self, theta: ClientParams, anchor: ClientParams, batch: Batch, lr: float, lam: float, steps: int
    ) -> Float[Tensor, "A"]:
        if self.steps_on_logits(batch.y.shape[1], steps):
            return gram.proximal_steps(self.chain[0], theta, anchor, batch, lr, lam, steps)
        return super().proximal_steps(theta, anchor, batch, lr, lam, steps)

    def steps_on_logits(self, batch_size: int, steps: int) -> bool:
        """Whether proximal steps on logits are possible, for one plain linear layer without an L2 term, and faster.

        X X^T costs B^2 F, the steps it saves about 2 B C F each.
        """
        layer = self.chain[0]
        if len(self.chain) != 1 or self.is_one_column or self.model.l2 or f"{layer}.bias" not in self.model.names:
            return False
        return batch_size <= 2 * steps * self.model.module.get_parameter(f"{layer}.weight").shape[0]

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        return self._batched.hessian_vector(params, vector, batch, objective, extras)

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        return self._forward(params, x.flatten(2))[1]

    def _forward(self, params: ClientParams, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The input of every layer, and the logits."""
        inputs: list[Tensor] = []
        for layer in self.chain:
            if inputs:
                x = x.relu_()
            inputs.append(x)
            bias, weight = params.get(f"{layer}.bias"), params[f"{layer}.weight"].transpose(1, 2)
            x = x.bmm(weight) if bias is None else torch.baddbmm(bias[:, None], x, weight)
        if self.is_one_column:
            x = torch.cat([torch.zeros_like(x), x], dim=-1)
        return inputs, x

    def _backward(
        self, out: ClientParams, params: ClientParams, inputs: list[Tensor], error: Tensor
    ) -> list[Tensor | None]:
        """The error at the output of every layer, down to the first one that ``out`` trains."""
        trained = [any(n.startswith(f"{layer}.") for n in out) for layer in self.chain]
        first = trained.index(True)
        errors: list[Tensor | None] = [None] * len(self.chain)
        for i in reversed(range(first, len(self.chain))):
            errors[i] = error
            if i > first:
                error = error.bmm(params[f"{self.chain[i]}.weight"])
                error.mul_(inputs[i] > 0)  # the layer's input is relu(z): its derivative is 1 where it is positive
        return errors
