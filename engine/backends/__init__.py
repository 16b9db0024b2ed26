"""Backends: interchangeable ways to compute the gradients of a whole cohort.

One primitive, ``accumulate``: out <- beta * out + alpha * grad(params, batch), for the ``A`` clients of a batch.
``out`` may be ``params`` itself (an SGD step) or hold some of its names (a body step). The returned loss is the
data term alone, taken at ``params`` before anything is written.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

from engine.backends.narrow import linear, log_softmax
from engine.core.params import ClientParams, SharedParams, each
from engine.federation.batches import Batch
from engine.models import Model

Extras = Mapping[str, Tensor]
Objective = Callable[[Model, SharedParams, Tensor, Tensor, Tensor, Extras], Tensor]
"""(model, one client's params, x [B, ...], y [B], weight [B] summing to 1, one client's extras) -> scalar loss."""


@dataclass(frozen=True)
class FactoredGradient:
    """The gradient of a layer's weight as two factors, errors^T inputs of each client: a step adds their product."""

    errors: Float[Tensor, "A B O"]
    inputs: Float[Tensor, "A B I"]


class FeatureGradients(NamedTuple):
    """The gradients of a loss on features, of A clients: by the features and by the parameters above the body."""

    losses: Float[Tensor, "A"]  # recorded; may leave out terms that the gradients have
    gradients: dict[str, Tensor | FactoredGradient]  # by parameter
    features: Float[Tensor, "A B F"]  # by the features


@dataclass(frozen=True)
class OnFeatures:
    """An objective that uses the samples and the body's parameters only through the body's output.

    ``loss(model, params [A, ...], features [A, B, F], y [A, B], weight [A, B], extras [A, ...]) -> [A]``: the losses of
    A clients. The fused backend differentiates it at the features, by autograd, and the body by hand. ``l2`` adds the
    gradient of l2/2 ||p||^2 for the parameters that it names, which the loss leaves out.

    ``gradients`` may compute from the same arguments, by formulas, what autograd finds. The fused backend uses it, and
    so does the loop where ``backend: auto`` has chosen it, if the head is one linear layer with a bias and nothing is
    rounded.
    """

    loss: Callable[[Model, ClientParams, Tensor, Tensor, Tensor, Extras], Float[Tensor, "A"]]
    l2: Mapping[str, float] = field(default_factory=dict)
    gradients: Callable[[Model, ClientParams, Tensor, Tensor, Tensor, Extras], FeatureGradients] | None = None

    def __call__(
        self, model: Model, params: SharedParams, x: Tensor, y: Tensor, weight: Tensor, extras: Extras
    ) -> Tensor:
        """The objective of one client."""
        stacked = {n: p[None] for n, p in params.items()}, model.features(params, x)[None], y[None], weight[None]
        loss = self.loss(model, *stacked, {n: e[None] for n, e in extras.items()})[0]
        for name, l2 in self.l2.items():
            loss = add_silently(loss, l2 / 2 * params[name].square().sum())
        return loss

    def l2_with(self, l2_of_model: Mapping[str, float]) -> dict[str, float]:
        """The strengths of both L2 terms together."""
        return {**l2_of_model, **{n: l2_of_model.get(n, 0.0) + l2 for n, l2 in self.l2.items()}}


@dataclass(frozen=True)
class Affine:
    """What an accumulation does to ``out`` first, where it differs by client: out <- scale_i out + shift_i."""

    scale: Float[Tensor, "A"]
    shift: ClientParams  # [A, ...]

    def part(self, rows: slice) -> "Affine":
        """The part for a slice of the clients."""
        return Affine(self.scale[rows], {n: p[rows] for n, p in self.shift.items()})


@dataclass(frozen=True)
class ClippedSum:
    """Sums of samples' gradients, each scaled to a norm of at most C: sum_j weight_j min(1, C / ||g_j||) g_j."""

    losses: Float[Tensor, "A"]  # of the data term, sums with the batch's weights
    gradient: ClientParams
    norms: Float[Tensor, "A B"]  # ||g_j|| over all trained tensors, before clipping; arbitrary on padding


class Backend(Protocol):
    """The computation of the gradients of many clients."""

    @property
    def name(self) -> str:
        """The name in the configuration."""

    @property
    def is_repeatable(self) -> bool:
        """Whether computations with batches of equal shapes differ only in the values of tensors (``step_graphs``)."""
        return False

    def undo_counts(self) -> Callable[[], None]:
        """Returns a function that takes back what was counted of gradients since this call: they are computed again."""
        return lambda: None

    @property
    def unclipped(self) -> "Backend":
        """This backend without ``training.clip_norm``."""
        return self

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0) -> int:
        """Clients to train together so that their live state stays in the cache (CPU) or memory (GPU).

        ``extra_bytes``: what the steps of a client use in addition to a model and its batch.
        """

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
        """out <- beta * out + alpha * (gradient of the loss and its L2 term at params); returns the data losses [A].

        beta = 0 overwrites ``out``. An ``Affine`` takes the place of beta * out.
        """

    def proximal_steps(
        self, theta: ClientParams, anchor: ClientParams, batch: Batch, lr: float, lam: float, steps: int
    ) -> Float[Tensor, "A"]:
        """``steps`` times theta <- theta - lr [grad f(theta; B) + lam (theta - anchor)]; returns their mean losses."""
        losses = []
        for _ in range(steps):
            losses.append(self.accumulate(theta, theta, batch, -lr, 1 - lr * lam))
            if lam:
                for name, p in theta.items():
                    p.add_(anchor[name], alpha=lr * lam)
        return torch.stack(losses).mean(0)

    def clipped_sum(
        self,
        trained: Collection[str],
        params: ClientParams,
        batch: Batch,
        clip: float,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClippedSum:
        """The gradients of single samples by the ``trained`` parameters, clipped to ``clip`` and summed; no L2 term.

        ``objective`` is called with one sample of weight 1.
        """

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        """Hessian of each client's training loss at ``params`` times its ``vector``, exact."""

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        """Each client's model on its own samples [A, B, ...]."""

    def features(self, params: ClientParams, x: Tensor) -> Float[Tensor, "A B F"]:
        """The output of each client's body on its own samples [A, B, ...]."""

    def outputs(self, forward: Callable[[SharedParams, Tensor], Tensor], params: ClientParams, x: Tensor) -> Tensor:
        """``forward``, a function of one client's parameters and samples, of each client [A, B, ...]."""
        return vmap(forward)(params, x)


def cross_entropy(model: Model, params: SharedParams, x: Tensor, y: Tensor, weight: Tensor, extras: Extras) -> Tensor:
    """The default objective: mean cross-entropy of one client's batch."""
    return (F.cross_entropy(model.logits(params, x), y, reduction="none") * weight).sum()


def cross_entropy_error(logits: Tensor, batch: Batch) -> tuple[Float[Tensor, "A"], Float[Tensor, "A B C"]]:
    """Mean cross-entropy of each client and its derivative at the logits."""
    return softmax_error(logits, batch.y, batch.weight)


def softmax_error(
    logits: Float[Tensor, "A B C"], y: Int[Tensor, "A B"], weight: Float[Tensor, "A B"] | None
) -> tuple[Float[Tensor, "A"], Float[Tensor, "A B C"]]:
    """``cross_entropy_error`` of labels and weights; without weights every batch is full."""
    log_p = log_softmax(logits)
    target = y[..., None]
    chosen = log_p.gather(-1, target)[..., 0]
    error = log_p.exp_()
    error.scatter_add_(-1, target, error.new_full((1, 1, 1), -1.0).expand(target.shape))
    if weight is None:
        return -chosen.mean(-1), error.mul_(1 / y.shape[1])
    return -(chosen * weight).sum(-1), error.mul_(weight[..., None])


def linear_head_gradients(
    params: ClientParams,
    features: Float[Tensor, "A B F"],
    y: Int[Tensor, "A B"],
    weight: Float[Tensor, "A B"],
    share: Float[Tensor, "A"] | None = None,
    offset: Float[Tensor, "A #B C"] | None = None,
) -> FeatureGradients:
    """The cross-entropy of a head that is one linear layer, and its gradients times each client's ``share``.

    ``offset`` is added to the logits.
    """
    head = params["head.weight"]
    logits = linear(features, head, params["head.bias"])
    losses, error = softmax_error(logits if offset is None else logits + offset, y, weight)
    if share is not None:
        error.mul_(each(share, error))
    return FeatureGradients(
        losses, {"head.weight": FactoredGradient(error, features), "head.bias": error.sum(1)}, error.bmm(head)
    )


def mean_cross_entropy(logits: Float[Tensor, "A B C"], y: Tensor, weight: Tensor) -> Float[Tensor, "A"]:
    """Cross-entropy of each client, averaged over its batch with ``weight``."""
    losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
    return (losses.view_as(y) * weight).sum(-1)


def add_silently(data: Tensor, term: Tensor) -> Tensor:
    """data + term for the gradient, data alone as the value: losses are recorded without what a method adds to them."""
    return data + (term - term.detach())


def of_classes(values: Tensor, y: Int[Tensor, "A B"]) -> Tensor:
    """The entry of each sample's class: values [A, C, ...] of A clients at their labels, [A, B, ...]."""
    first = torch.arange(0, values.shape[0] * values.shape[1], values.shape[1], device=y.device)
    rows = values.flatten(0, 1).index_select(0, (y + first[:, None]).flatten())  # faster than two indices
    return rows.view(*y.shape, *values.shape[2:])


def where_positive(x: Tensor, error: Tensor) -> Tensor:
    """The error at z from that at x = relu(z), in place: its entries where x is positive, and 0 elsewhere."""
    return torch.ops.aten.threshold_backward.grad_input(error, x, 0, grad_input=error)


def batch_weight(batch: Batch) -> Float[Tensor, "A B"]:
    """The batch's weights, written out where every batch is full."""
    if batch.weight is not None:
        return batch.weight
    return torch.full(batch.y.shape, 1 / batch.y.shape[1], dtype=batch.x.dtype, device=batch.x.device)


def scale_out(
    out: ClientParams, params: ClientParams, alpha: float, beta: float | Affine, l2_of: Mapping[str, float]
) -> None:
    """out <- beta * out + alpha * l2 * params, in place; right also where ``out`` is ``params``.

    Parameters that ``l2_of`` does not name have no L2 term.
    """
    for name, target in out.items():
        l2 = l2_of.get(name, 0.0)
        is_own = target is params[name] or target.data_ptr() == params[name].data_ptr()
        if isinstance(beta, Affine):
            scale = beta.scale + alpha * l2 if is_own else beta.scale
            torch.addcmul(beta.shift[name], target, each(scale, target), out=target)
        elif is_own:
            if beta + alpha * l2 != 1.0:
                target.mul_(beta + alpha * l2)
        elif beta == 0.0:
            target.zero_()
        elif beta != 1.0:
            target.mul_(beta)
        if l2 and not is_own:
            target.add_(params[name], alpha=alpha * l2)


def add_at_features(
    out: ClientParams,
    params: ClientParams,
    gradients: Mapping[str, Tensor | FactoredGradient],
    alpha: float,
    beta: float | Affine,
    l2_of: Mapping[str, float],
) -> None:
    """``scale_out``, then adds the gradients of an objective on features, but not yet the gradients of the body."""
    inside = _scales_inside(out, params, gradients, alpha, beta, l2_of)
    scale_out({n: p for n, p in out.items() if n not in inside}, params, alpha, beta, l2_of)
    for name, gradient in gradients.items():
        if name not in out:
            continue
        if isinstance(gradient, FactoredGradient):
            out[name].baddbmm_(gradient.errors.mT, gradient.inputs, beta=inside.get(name, 1.0), alpha=alpha)
        else:
            out[name].add_(gradient, alpha=alpha)


def _scales_inside(
    out: ClientParams,
    params: ClientParams,
    gradients: Mapping[str, Tensor | FactoredGradient],
    alpha: float,
    beta: float | Affine,
    l2_of: Mapping[str, float],
) -> dict[str, float]:
    """The factors of parameters that the product of their gradient's factors scales, so that one pass does both."""
    if isinstance(beta, Affine):
        return {}
    names = (n for n, g in gradients.items() if isinstance(g, FactoredGradient) and n in out)
    return {n: beta + alpha * l2_of.get(n, 0.0) for n in names if out[n].data_ptr() == params[n].data_ptr()}


def clip_factor(norms: Float[Tensor, "..."], clip: float) -> Float[Tensor, "..."]:
    """min(1, clip / norm)."""
    whole = norms.double()  # single precision may not hold ``clip``
    return (clip / whole.clamp(min=clip)).to(norms.dtype)


def choose_backend(name: str, model: Model, device: torch.device) -> Backend:
    """``auto``: fused where the model is a chain of linear layers, else batched on a GPU, else by architecture.

    Convolutions and embedding tables on a CPU run one client at a time: one already uses all cores, or the cache.
    Raises Unsupported for ``fused`` with any other model.
    """
    from engine.backends.batched import Batched
    from engine.backends.fused import Fused, linear_chain
    from engine.backends.image_layers import can_compile, for_gpu
    from engine.backends.loop import Loop
    from engine.core.errors import Unsupported

    chain = linear_chain(model.module)
    is_auto = name == "auto"
    if is_auto:
        large = (torch.nn.modules.conv._ConvNd, torch.nn.Embedding)
        is_large = any(isinstance(m, large) for m in model.module.modules())
        is_fused = chain is not None and model.rounded_to is None
        name = "fused" if is_fused else "loop" if is_large and device.type == "cpu" else "batched"
    if name == "fused":
        if model.rounded_to is not None:
            raise Unsupported("backend fused has no bfloat16; use backend: auto")
        if chain is None:
            raise Unsupported("backend fused supports linear layers with ReLU between them only; use backend: auto")
        return Fused(model, chain)
    if name == "loop":
        return Loop(model, uses_given_gradients=is_auto and model.rounded_to is None)
    if device.type == "cuda":
        model = for_gpu(model, has_kernels=model.rounded_to == torch.bfloat16 and can_compile())
    return Batched(model)
