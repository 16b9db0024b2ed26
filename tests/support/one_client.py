"""A network of linear layers and ReLU with plain autograd, one client at a time and without the engine."""

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.batches import samples_of

Params = dict[str, Tensor]


def loss(params: Params, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy; the order of names is that of the layers."""
    layers = [n.removesuffix(".weight") for n in params if n.endswith(".weight")]
    for layer in layers:
        x = F.linear(x, params[f"{layer}.weight"], params[f"{layer}.bias"])
        x = x if layer == layers[-1] else x.relu()
    return F.cross_entropy(x, y)


def gradient(params: Params, x: Tensor, y: Tensor) -> Params:
    variables = {n: p.detach().clone().requires_grad_() for n, p in params.items()}
    return dict(zip(params, torch.autograd.grad(loss(variables, x, y), [*variables.values()]), strict=True))


def moved(params: Params, slope: Params, lr: float) -> Params:
    """A gradient step on the parameters in ``slope``."""
    return {n: p - lr * slope[n] if n in slope else p for n, p in params.items()}


def batches_of(run, round: int, stream: str | None = None, steps: int = 0) -> list[list[tuple[Tensor, Tensor]]]:
    """The batches of a round or an extra stream, from the engine's plan: [client][step] (x, y)."""
    cohort = run.task.cohort(round)
    found = samples_of(run.task, cohort.clients, run.task.plan(cohort, stream, steps) if stream else cohort.plan)
    return [found[i] for i in range(run.task.num_clients)]
