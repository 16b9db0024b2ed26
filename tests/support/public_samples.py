"""Public samples of a round and training on them, one client at a time and without the engine's plans."""

from collections.abc import Callable

import numpy as np
import torch

from engine.core.streams import numpy_stream
from tests.support import plain

Loss = Callable[[plain.Params, torch.Tensor, torch.Tensor], torch.Tensor]


def alignment_of(run, round: int, size: int) -> torch.Tensor:
    """The first ``size`` public samples of the round's permutation, [n, ...]."""
    public = run.task.data.public
    order = numpy_stream(run.task.seed, "public", round).permutation(public.num_samples)[:size]
    return public.features(torch.from_numpy(order))


def public_batches(count: int, steps: int, batch: int) -> list[torch.Tensor]:
    """The places of each step's samples in an alignment set of ``count``."""
    parts = torch.arange(count).split(batch)
    return [parts[step % len(parts)] for step in range(steps)]


def descend(params: plain.Params, batches: list, loss: Loss, lr: float, momentum: float) -> plain.Params:
    """SGD with momentum that starts at rest."""
    velocity = {n: torch.zeros_like(p) for n, p in params.items()}
    for x, y in batches:
        variables = {n: p.clone().requires_grad_() for n, p in params.items()}
        gradients = torch.autograd.grad(loss(variables, x, y), list(variables.values()))
        velocity = {n: momentum * velocity[n] + g for n, g in zip(params, gradients, strict=True)}
        params = {n: p - lr * velocity[n] for n, p in params.items()}
    return params


def mean_loss(params: plain.Params, batches: list, lr: float, momentum: float) -> float:
    """The mean cross-entropy over the steps of a local training."""
    losses = []
    for batch in range(len(batches)):
        at = descend(params, batches[:batch], plain.cross_entropy, lr, momentum)
        losses.append(float(plain.cross_entropy(at, *batches[batch])))
    return float(np.mean(losses))
