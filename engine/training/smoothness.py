"""L, the smoothness of the clients' losses on linear models, and what it says about a learning rate.

L = c * largest eigenvalue over clients of X~^T X~ / n + l2, X~ with a column of ones for the bias; c = 1/4 for
one-column logistic regression, 1/2 for softmax (the largest eigenvalue of diag(p) - p p^T). Yu et al. write X^T X
and 1/4.
"""

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
    known = task.data.train.__dict__.get("_largest_eigenvalue")
    if known is None:
        known = max(_largest_eigenvalue(task, i) for i in _some(task))
        task.data.train.__dict__["_largest_eigenvalue"] = known
    columns = next(m for m in task.model.module.modules() if isinstance(m, nn.Linear)).out_features
    return known * (0.25 if columns == 1 else 0.5) + task.model.l2


def note_if_unstable(task: Task, lr: float, lam: float) -> None:
    """Warn where lr (L + lam) > 2: gradient steps of that size move away from the proximal point."""
    if not is_linear(task):
        return
    steepness = smoothness(task) + lam
    if lr * steepness > 2:
        task.note(
            f"lr {lr:g} times (smoothness + lambda) {steepness:.3g} is {lr * steepness:.3g}, above 2: steps may grow "
            f"without bound; use a learning rate below {2 / steepness:.2g}, or a smaller lambda"
        )


def _some(task: Task) -> list[int]:
    """The clients to compute it for."""
    if task.num_clients <= _MOST_CLIENTS:
        return list(range(task.num_clients))
    drawn: list[int] = (
        numpy_stream(task.seed, "smoothness").choice(task.num_clients, _MOST_CLIENTS, replace=False).tolist()
    )
    return drawn


def _largest_eigenvalue(task: Task, client: int) -> float:
    x = _with_bias(task.data.train.of_client(client)[0].flatten(1))
    v = torch.ones(x.shape[1], dtype=x.dtype, device=x.device)
    value = torch.zeros((), dtype=x.dtype, device=x.device)
    for _ in range(_POWER_STEPS):
        v = v / v.norm()
        product = x.T @ (x @ v) / len(x)
        value = v @ product
        v = product
    return float(value)


def _with_bias(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones(len(x), 1)], dim=1)
