"""Distance to the truth on generated data, where the true models are known: the errors of Yu et al., as squared norms.

total error        ||w - w*||^2 of the models as they are: recorded for every method in every evaluated round
statistical error  the same of the converged solution of one-stage FedProx, found by Newton's method
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from engine.task import Predictor, Task
from engine.training.evaluate import spread
from engine.training.smoothness import is_linear

_NEWTON_STEPS = 50
_MAX_UNKNOWNS = 2000
_ALIKE = 1e-12
_FLAT = 1e-10  # directions with less than this share of the largest curvature do not affect the loss


@dataclass(frozen=True)
class Solution:
    """The joint minimizer of mean_i f_i(w_i) + lam/2 ||w_g - w_i||^2, flattened parameters in double."""

    local: Float[Tensor, "N P"]  # w_i
    shared: Float[Tensor, "P"]  # w_g, their mean


def is_known(task: Task) -> bool:
    """Whether errors against a true model can be computed: generated data and a linear model for two classes."""
    return task.data.truth is not None and is_linear(task) and task.data.num_classes == 2


def has_directions(predictor: Predictor) -> bool:
    """Whether each of its models is a linear one, not a mixture of several."""
    return predictor.params["head.weight"].dim() == (3 if predictor.is_per_client else 2)


def total_error(task: Task, predictor: Predictor, is_global: bool) -> np.ndarray:
    """[N] squared distances: of each client's model to its own truth, of the global one to the mean of the truths.

    NaN for clients that the task does not evaluate.
    """
    truth, weight = _truth(task), predictor.params["head.weight"]
    mean = truth.mean(0)
    model = _direction(weight if predictor.is_per_client else weight[None]).double()
    if task.evaluated is not None:
        truth = truth[task.evaluated]
        model = model[task.evaluated] if predictor.is_per_client and predictor.clients is None else model
    errors = (model - (mean if is_global else truth)).expand_as(truth).square().sum(1).cpu().numpy()
    return errors if task.evaluated is None else spread(errors, task.evaluated, task.num_clients)


def heterogeneity(models: Float[Tensor, "N P"]) -> float:
    """R_h = max_i ||w_i - mean w||; 0 where the models are alike up to rounding."""
    spread = float((models - models.mean(0)).norm(dim=1).max())
    return 0.0 if spread <= _ALIKE * float(models.norm(dim=1).max()) else spread


def true_heterogeneity(task: Task) -> float:
    """R_h of the drawn truth."""
    return heterogeneity(_truth(task))


def statistical_error(task: Task, lam: float) -> tuple[float, float] | None:
    """(mean local, global) squared error of the converged solution; None if too large to solve, or without a limit."""
    if task.num_clients * task.model.num_parameters > _MAX_UNKNOWNS:
        return None
    solved = solve(task, lam)
    if solved is None:
        return None
    truth = _truth(task)
    width = task.model.initial(task.seed)["head.weight"].numel()
    rows = solved.local[:, :width].unflatten(1, (-1, truth.shape[1]))
    shared = solved.shared[:width].view(-1, truth.shape[1])
    local = (_direction(rows) - truth).square().sum(1).mean()
    return float(local), float((_direction(shared[None])[0] - truth.mean(0)).square().sum())


def solve(task: Task, lam: float) -> Solution | None:
    """Block coordinate Newton: exact w_i given w_g, then w_g, eliminated through the Schur complement."""
    size = task.model.num_parameters
    local = torch.zeros(task.num_clients, size, dtype=torch.float64, device=task.device)
    shared = torch.zeros(size, dtype=torch.float64, device=task.device)
    identity = torch.eye(size, dtype=torch.float64, device=task.device)
    data = [task.data.train.of_client(i) for i in range(task.num_clients)]
    for _ in range(_NEWTON_STEPS):
        parts = [_derivatives(task, w, *d) for w, d in zip(local, data, strict=True)]
        gradients = torch.stack([g for g, _ in parts]) + lam * (local - shared)
        hessians = torch.stack([h for _, h in parts])
        inverses = torch.linalg.pinv(hessians + lam * identity, rtol=_FLAT, hermitian=True)
        step_shared = torch.zeros_like(shared)
        if lam:
            # minimize over w_g: sum_i lam (w_g - w_i) = 0, with each w_i's own Newton response to w_g
            schur = lam * (inverses @ hessians).sum(0)  # = sum lam (I - lam inverse), without the cancellation
            reduced = (lam * (shared - local) + lam * torch.einsum("nij,nj->ni", inverses, gradients)).sum(0)
            step_shared = -torch.linalg.pinv((schur + schur.T) / 2, rtol=_FLAT, hermitian=True) @ reduced
        step = -torch.einsum("nij,nj->ni", inverses, gradients - lam * step_shared)
        length = float(torch.cat([step.flatten(), step_shared]).abs().max())
        damping = min(1.0, 2.0 / max(length, 1e-12))
        local, shared = local + damping * step, shared + damping * step_shared
        if not lam:
            shared = local.mean(0)
        if length < 1e-9:
            return Solution(local, shared)
    return None


def _derivatives(task: Task, w: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of one client's mean loss with its L2 term, in double; flattened as weight, then bias.

    With X~ = [X, 1] and probabilities p over the C columns (one for logistic regression): the gradient is
    (p - onehot)^T X~ / n, the Hessian mean_n (diag(p_n) - p_n p_n^T) kron x~_n x~_n^T.
    """
    x = torch.cat([x.flatten(1).double(), x.new_ones(len(x), 1).double()], dim=1)
    width = x.shape[1]
    columns = len(w) // width
    weight, bias = w[: columns * (width - 1)].view(columns, -1), w[columns * (width - 1) :]
    z = x @ torch.cat([weight, bias[:, None]], dim=1).T
    p = z.sigmoid() if columns == 1 else z.softmax(1)
    target = y[:, None].double() if columns == 1 else torch.nn.functional.one_hot(y, columns).double()
    curvature = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    hessian = torch.einsum("ncd,nf,ng->cfdg", curvature, x, x) / len(x)
    gradient = (p - target).T @ x / len(x)
    l2 = torch.full((columns, width), task.model.l2, dtype=torch.float64, device=w.device)
    l2[:, -1] = 0  # biases are free
    order = _weight_then_bias(columns, width, w.device)
    flat = hessian.reshape(columns * width, -1) + torch.diag(l2.flatten())
    return (gradient + l2 * torch.cat([weight, bias[:, None]], dim=1)).flatten()[order], flat[order][:, order]


def _weight_then_bias(columns: int, width: int, device: torch.device) -> Tensor:
    """Places of the flattened [C, F + 1] in the order of a state dict: all weights, then all biases."""
    places = torch.arange(columns * width, device=device).view(columns, width)
    return torch.cat([places[:, :-1].flatten(), places[:, -1]])


def _truth(task: Task) -> Float[Tensor, "N F"]:
    assert task.data.truth is not None
    return torch.from_numpy(task.data.truth["weights"]).to(task.device)


def _direction(weight: Float[Tensor, "N C F"]) -> Float[Tensor, "N F"]:
    """The logistic weight vector: the one column, or the difference of the two softmax rows."""
    return weight[:, 0] if weight.shape[1] == 1 else weight[:, 1] - weight[:, 0]
