"""Accuracy and mean cross-entropy of every client on its own samples."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

from engine.core.params import ClientParams, SharedParams, row
from engine.federation.clients import ClientData
from engine.task import Predictor, Task

_SLAB_BYTES = 16 * 2**20  # bytes of the samples that are evaluated together on a CPU
_SLAB_BYTES_GPU = 512 * 2**20


def evaluate(task: Task, predictor: Predictor, data: ClientData) -> tuple[np.ndarray, np.ndarray]:
    """(accuracy [N], loss [N]) as float64; NaN for clients without samples, and accuracies of models not finite.

    A shared model, and one "client" with many models (the common test set), are handled by the same two paths.
    """
    correct, loss = _per_client(task, predictor, data) if predictor.is_per_client else _shared(task, predictor, data)
    sizes = data.sizes.cpu().numpy().astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, mean_loss = correct / sizes, loss / sizes
    accuracy[~np.isfinite(mean_loss)] = np.nan
    return accuracy, mean_loss


def evaluate_common(task: Task, predictor: Predictor) -> tuple[np.ndarray, np.ndarray]:
    """(accuracy [N], loss [N]) of every client's model on the common test set; equal entries for a shared model."""
    common = task.data.common_test
    assert common is not None
    if not predictor.is_per_client:
        accuracy, loss = evaluate(task, predictor, common)
        return accuracy.repeat(task.num_clients), loss.repeat(task.num_clients)
    values = [
        evaluate(task, Predictor(predictor.of_client(i), False, predictor.forward), common)
        for i in range(task.num_clients)
    ]
    return np.concatenate([a for a, _ in values]), np.concatenate([b for _, b in values])


def training_losses(task: Task, models: ClientParams) -> Float[Tensor, "N K"]:
    """Mean loss of each of K models [K, ...] on the training data of every client; each sample is read once."""
    data, K = task.data.train, len(next(iter(models.values())))
    totals = torch.zeros(K, data.num_clients, dtype=torch.float64, device=task.device)
    with torch.no_grad():
        for owner, x, y in _slabs(task, data):
            for k in range(K):
                task.tick()
                _, losses = _scores(task.model.logits(row(models, k), x), y)
                totals[k].index_add_(0, owner, losses)
    return (totals / data.sizes).T.to(task.dtype)


def _shared(task: Task, predictor: Predictor, data: ClientData) -> tuple[np.ndarray, np.ndarray]:
    """One model over all rows, summed by client."""
    totals = torch.zeros(2, data.num_clients, dtype=torch.float64, device=task.device)
    with torch.no_grad():
        for owner, x, y in _slabs(task, data):
            totals.index_add_(1, owner, torch.stack(_scores(_logits(task, predictor, predictor.params, x), y)))
    correct, loss = totals.cpu().numpy()
    return correct, loss


def _slabs(task: Task, data: ClientData) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(client, features, label) of all samples, in pieces."""
    owner = torch.repeat_interleave(torch.arange(data.num_clients, device=task.device), data.sizes)
    step = max(1, _slab(task) // _sample_bytes(data))
    for begin in range(0, len(data.y), step):
        task.tick()
        rows = slice(begin, begin + step)
        yield owner[rows], data.as_floats(data.x[rows]), data.y[rows]


def _per_client(task: Task, predictor: Predictor, data: ClientData) -> tuple[np.ndarray, np.ndarray]:
    """Clients of similar size together, padded to the largest of the group."""
    correct, loss = np.zeros(data.num_clients), np.zeros(data.num_clients)
    with torch.no_grad():
        for clients in _groups(task, data):
            task.tick()
            sizes = data.sizes[clients]
            place = torch.arange(int(sizes.max()), device=task.device)
            rows = data.offsets[clients][:, None] + place.minimum(sizes[:, None] - 1)
            params = {n: p[clients] for n, p in predictor.params.items()}
            hits, losses = _scores(_stacked_logits(task, predictor, params, data.features(rows)), data.y[rows])
            used = place < sizes[:, None]
            index = clients.cpu().numpy()
            correct[index] = hits.where(used, 0).sum(1).cpu().numpy()
            loss[index] = losses.where(used, 0).sum(1).cpu().numpy()
    return correct, loss


def _groups(task: Task, data: ClientData) -> Iterator[Tensor]:
    """Clients with samples, largest first, in groups whose padded samples fit the slab."""
    order = data.sizes.argsort(descending=True, stable=True)
    order = order[: int((data.sizes > 0).sum())]
    sizes = data.sizes[order].tolist()
    begin = 0
    while begin < len(order):
        count = max(1, _slab(task) // (sizes[begin] * _sample_bytes(data)))
        yield order[begin : begin + count]
        begin += count


def _stacked_logits(task: Task, predictor: Predictor, params: SharedParams, x: Tensor) -> Tensor:
    if predictor.forward is None:
        return task.backend.logits(task.model, params, x)
    return vmap(predictor.forward)(params, x)


def _logits(task: Task, predictor: Predictor, params: SharedParams, x: Tensor) -> Tensor:
    return predictor.forward(params, x) if predictor.forward else task.model.logits(params, x)


def _scores(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(1 where the largest logit is the label, cross-entropy) of each sample, in double."""
    loss = F.cross_entropy(logits.flatten(0, -2).double(), y.flatten(), reduction="none").view(y.shape)
    return (logits.argmax(-1) == y).double(), loss


def _sample_bytes(data: ClientData) -> int:
    return max(1, data.x[:1].numel() * torch.finfo(data.dtype).bits // 8)


def _slab(task: Task) -> int:
    return _SLAB_BYTES_GPU if task.device.type == "cuda" else _SLAB_BYTES
