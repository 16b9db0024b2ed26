"""The papers' equations with plain autograd, one client at a time, without stacked tensors or backends."""

from collections.abc import Callable, Iterable

import torch
from torch.nn import functional as F

from tests.support.batches import Batches

Params = dict[str, torch.Tensor]


def hidden(params: Params, x: torch.Tensor) -> torch.Tensor:
    """The features of ``dnn``."""
    return F.relu(x @ params["body.1.weight"].T + params["body.1.bias"])


def logits(params: Params, x: torch.Tensor) -> torch.Tensor:
    return hidden(params, x) @ params["head.weight"].T + params["head.bias"]


def cross_entropy(params: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits(params, x), y)


def descend(
    params: Params,
    batches: Batches,
    lr: float = 0.1,
    loss: Callable[[Params, torch.Tensor, torch.Tensor], torch.Tensor] = cross_entropy,
    trained: Iterable[str] | None = None,
) -> Params:
    """SGD on the parameters whose names start with one of ``trained`` (by default all)."""
    names = [n for n in params if trained is None or n.startswith(tuple(trained))]
    for x, y in batches:
        variables = {n: p.clone().requires_grad_() for n, p in params.items()}
        gradients = torch.autograd.grad(loss(variables, x, y), [variables[n] for n in names], materialize_grads=True)
        params = params | {n: params[n] - lr * g for n, g in zip(names, gradients, strict=True)}
    return params


def average(models: dict[int, Params], sizes: tuple[int, ...], prefix: str | tuple[str, ...]) -> Params:
    """The mean over clients, weighted by m_i / m, of the parameters that start with ``prefix``."""
    total = sum(sizes[i] for i in models)
    names = [n for n in next(iter(models.values())) if n.startswith(prefix)]
    return {n: sum(sizes[i] / total * model[n] for i, model in models.items()) for n in names}


def stack(models: list[Params]) -> Params:
    return {n: torch.stack([m[n] for m in models]) for n in models[0]}
