"""L, the smoothness of the clients' losses on linear models, and what it says about a learning rate.

L = c * largest eigenvalue over clients of X~^T X~ / n + l2, X~ with a column of ones for the bias; c = 1/4 for
one-column logistic regression, 1/2 for softmax (the largest eigenvalue of diag(p) - p p^T). Yu et al. write X^T X
and 1/4.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.core.streams import numpy_stream
from engine.task import Task

_POWER_STEPS, _MOST_CLIENTS = 50, 1000


def is_linear(task: Task) -> bool:
    """Whether the model is a single linear layer."""
    return len([m for m in task.model.module.modules() if isinstance(m, nn.Linear)]) == 1 == len(task.model.layers)


def smoothness(task: Task) -> float:
    """Largest L over clients, by power iteration on each client's second-moment matrix. Raises Unsupported.

    Of more than 1,000 clients it is the largest of 1,000 that are drawn at random.
    """
    if not is_linear(task):
        raise Unsupported("the smoothness L is known for linear models only; use model: mlr or logistic")
    return _from_curvature(task, _over_clients(task, _largest_eigenvalue))


def note_if_unstable(task: Task, lr: float, lam: float) -> None:
    """Warn where lr (L + lam) > 2: gradient steps of that size move away from the proximal point."""
    if not is_linear(task):
        return
    if lr * (_from_curvature(task, _over_clients(task, _trace)) + lam) <= 2:
        return  # no eigenvalue exceeds the trace, which is much cheaper to compute
    steepness = smoothness(task) + lam
    if lr * steepness > 2:
        task.note(
            f"lr {lr:g} times (smoothness + lambda) {steepness:.3g} is {lr * steepness:.3g}, above 2: steps may grow "
            f"without bound; use a learning rate below {2 / steepness:.2g}, or a smaller lambda"
        )


def _from_curvature(task: Task, largest: float) -> float:
    """L from the largest eigenvalue of X~^T X~ / n."""
    columns = next(m for m in task.model.module.modules() if isinstance(m, nn.Linear)).out_features
    return largest * (0.25 if columns == 1 else 0.5) + task.model.l2


def _over_clients(task: Task, measure: Callable[[Tensor], float]) -> float:
    """The largest ``measure`` of a client's X~, computed once per data set."""
    kept = task.data.train.__dict__
    if measure.__name__ not in kept:
        kept[measure.__name__] = max(measure(_features_and_bias(task, client)) for client in _some(task))
    return float(kept[measure.__name__])


def _some(task: Task) -> list[int]:
    """The clients to compute it for."""
    if task.num_clients <= _MOST_CLIENTS:
        return list(range(task.num_clients))
    drawn: list[int] = (
        numpy_stream(task.seed, "smoothness").choice(task.num_clients, _MOST_CLIENTS, replace=False).tolist()
    )
    return drawn


def _features_and_bias(task: Task, client: int) -> Tensor:
    """X~: the client's samples and a column of ones, [M_i, F + 1]."""
    x = task.data.train.of_client(client)[0].flatten(1)
    return torch.cat([x, x.new_ones(len(x), 1)], dim=1)


def _trace(x: Tensor) -> float:
    return float(x.square().sum() / len(x))


def _largest_eigenvalue(x: Tensor) -> float:
    v = torch.ones(x.shape[1], dtype=x.dtype, device=x.device)
    value = torch.zeros((), dtype=x.dtype, device=x.device)
    for _ in range(_POWER_STEPS):
        v = v / v.norm()
        product = x.T @ (x @ v) / len(x)
        value = v @ product
        v = product
    return float(value)
