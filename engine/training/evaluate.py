"""Accuracy and mean cross-entropy of every client on its own samples."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from engine.core.devices import sent
from engine.core.params import ClientParams, SharedParams, broadcast, concat, row
from engine.federation.batches import Cohort
from engine.federation.clients import ClientData
from engine.task import Predictor, Task
from engine.training import joint_seeds

_SLAB_BYTES = 4 * 2**20  # bytes of the samples that are evaluated together on a CPU: they stay in its cache
_SLAB_BYTES_GPU = 512 * 2**20
_MODEL_BYTES, _MODEL_BYTES_GPU = 2**28, 2**33  # of the models that are evaluated together


def evaluate(task: Task, predictor: Predictor, data: ClientData) -> tuple[np.ndarray, np.ndarray]:
    """(accuracy [N], loss [N]) as float64; NaN for clients without samples, and accuracies of models not finite.

    A shared model, and one "client" with many models (the common test set), are handled by the same two paths. Where
    the task evaluates a sample of the clients, the values of the others are NaN.
    """
    lockstep = task.lockstep
    if lockstep is None or predictor.forward or predictor.clients is not None or task.evaluated is not None:
        return _evaluate(task, predictor, data)
    key = "evaluate", predictor.is_per_client, type(task.backend), joint_seeds.kind(predictor.params)
    return lockstep.meet(key, _Evaluation(task, predictor, data), _evaluate_all)


@dataclass(frozen=True)
class _Evaluation:
    """The arguments of ``evaluate``."""

    task: Task
    predictor: Predictor
    data: ClientData


def _evaluate(task: Task, predictor: Predictor, data: ClientData) -> tuple[np.ndarray, np.ndarray]:
    clients = _evaluated(task, data)
    compute = _per_client if predictor.is_per_client else _shared
    accuracy, loss = _means(compute(task, predictor, data, clients), data.sizes[clients])
    return spread(accuracy, clients, data.num_clients), spread(loss, clients, data.num_clients)


def _evaluate_all(runs: Sequence[_Evaluation]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Evaluates several runs at once by concatenating their clients."""
    if len(runs) == 1:
        return [_evaluate(runs[0].task, runs[0].predictor, runs[0].data)]
    tasks, numbers = [run.task for run in runs], [run.data.num_clients for run in runs]
    data, task = joint_seeds.joined_data(tasks, [run.data for run in runs]), joint_seeds.joined(tasks)
    if runs[0].predictor.is_per_client:
        models = Predictor(concat([run.predictor.params for run in runs]), is_per_client=True)
        sums = _per_client(task, models, data, torch.arange(data.num_clients, device=task.device))
    else:
        params = {n: torch.stack([run.predictor.params[n] for run in runs]) for n in runs[0].predictor.params}
        sums = _shared_in_each(task, params, data, [run.data.num_samples for run in runs])
    accuracy, loss = _means(sums, data.sizes)
    ends = np.cumsum(numbers)[:-1]
    return list(zip(np.split(accuracy, ends), np.split(loss, ends), strict=True))


def _means(sums: tuple[np.ndarray, np.ndarray], sizes: Int[Tensor, "n"]) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and mean losses of clients, from their sums."""
    count = sizes.cpu().numpy().astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, loss = sums[0] / count, sums[1] / count
    accuracy[~np.isfinite(loss)] = np.nan
    return accuracy, loss


def evaluate_common(task: Task, predictor: Predictor) -> tuple[np.ndarray, np.ndarray]:
    """(accuracy [N], loss [N]) of every client's model on the common test set; equal entries for a shared model."""
    common = task.data.common_test
    assert common is not None
    clients = torch.arange(task.num_clients) if task.evaluated is None else task.evaluated.cpu()
    task = replace(task, evaluated=None)  # the common test set is evaluated as the data of a single client
    if predictor.is_per_client:
        of_client = (Predictor(predictor.of_client(i), False, predictor.forward) for i in clients.tolist())
        values = [evaluate(task, model, common) for model in of_client]
        accuracy, loss = (np.concatenate([pair[k] for pair in values]) for k in (0, 1))
    else:
        accuracy, loss = (value.repeat(len(clients)) for value in evaluate(task, predictor, common))
    return spread(accuracy, clients, task.num_clients), spread(loss, clients, task.num_clients)


def _evaluated(task: Task, data: ClientData) -> Tensor:
    """The clients [n] to evaluate, ascending."""
    return torch.arange(data.num_clients, device=task.device) if task.evaluated is None else task.evaluated


def spread(values: np.ndarray, clients: Tensor, num_clients: int) -> np.ndarray:
    """[N] from the values of some clients; NaN for the others."""
    if len(values) == num_clients:
        return values
    everyone = np.full(num_clients, np.nan)
    everyone[clients.cpu().numpy()] = values
    return everyone


def training_losses(task: Task, models: ClientParams) -> Float[Tensor, "N K"]:
    """Mean loss of each of K models [K, ...] on the training data of every client; each sample is read once."""
    data, K = task.data.train, len(next(iter(models.values())))
    totals = torch.zeros(data.num_clients, K, dtype=torch.float64, device=task.device)
    for owner, losses in _losses(task, models, torch.arange(data.num_clients, device=task.device)):
        totals.index_add_(0, owner, losses)
    return (totals / data.sizes[:, None]).to(task.dtype)


def sample_losses(task: Task, models: ClientParams, clients: Int[Tensor, "n"]) -> Float[Tensor, "M K"]:
    """Loss of each of K models [K, ...] on each training sample of the clients, client by client, in double."""
    return torch.cat([losses for _, losses in _losses(task, models, clients)])


def cohort_losses(task: Task, params: SharedParams, cohort: Cohort) -> Float[Tensor, "S"]:
    """Mean loss of one model on all training data of each participant, in double; nothing is augmented."""
    data, clients = task.data.train, cohort.clients
    totals = torch.zeros(cohort.size, dtype=torch.float64, device=task.device)
    total = sum(task.train_sizes[c] for c in cohort.client_ids)
    for owner, losses in _losses(task, broadcast(params, 1), clients, total):
        totals.index_add_(0, owner, losses[:, 0])
    return totals / data.sizes[clients]


def _losses(
    task: Task, models: ClientParams, clients: Int[Tensor, "n"], total: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """(place in ``clients`` [m], loss of each model [m, K]) of their training samples, in pieces; see ``slabs``."""
    each = [task.model.laid_out(row(models, k)) for k in range(len(next(iter(models.values()))))]
    with torch.no_grad():
        for owner, x, y in slabs(task, task.data.train, clients, total):
            losses = []
            for model in each:
                task.tick()
                losses.append(_scores(task.model.logits(model, x), y)[1])
            yield owner, torch.stack(losses, dim=1)


def _shared(
    task: Task, predictor: Predictor, data: ClientData, clients: Int[Tensor, "n"]
) -> tuple[np.ndarray, np.ndarray]:
    """One model over all samples of the clients, summed by client."""
    totals = torch.zeros(2, len(clients), dtype=torch.float64, device=task.device)
    params = task.model.laid_out(predictor.params)
    with torch.no_grad():
        for owner, x, y in slabs(task, data, clients):
            totals.index_add_(1, owner, torch.stack(_scores(_logits(task, predictor, params, x), y)))
    correct, loss = totals.cpu().numpy()
    return correct, loss


def _shared_in_each(
    task: Task, models: ClientParams, data: ClientData, sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Like ``_shared``, for several runs with ``sizes`` samples each: each run's model [R, ...] on its own samples."""
    ends = sent(sizes, task.device).cumsum(0)[:, None]
    starts = ends - ends.diff(dim=0, prepend=ends.new_zeros(1, 1))
    owner = torch.repeat_interleave(data.sizes, output_size=data.num_samples)
    totals = torch.zeros(2, data.num_clients, dtype=torch.float64, device=task.device)
    sample_bytes = _sample_bytes(task, data)
    at_once = min(len(sizes), task.backend.chunk_size(task.model, sample_bytes, task.device))  # a loop takes each alone
    step = max(1, _slab(task) // (at_once * sample_bytes))
    with torch.no_grad():
        for begin in range(0, max(sizes), step):
            task.tick()
            places = starts + torch.arange(begin, min(begin + step, max(sizes)), device=task.device)
            is_used, places = places < ends, places.minimum((ends - 1).clamp(min=0))
            logits = task.backend.logits(task.model, models, data.features(places))
            scores = torch.stack(_scores(logits, data.labels(places))).where(is_used, 0)
            totals.index_add_(1, owner[places].flatten(), scores.flatten(1))
    correct, loss = totals.cpu().numpy()
    return correct, loss


def slabs(
    task: Task, data: ClientData, clients: Int[Tensor, "n"], total: int | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(place in ``clients``, features, label) of all samples of the clients, client by client, in pieces.

    Without their ``total`` number it is read from the device.
    """
    sizes = data.sizes[clients]
    ends = sizes.cumsum(0)
    step, total = max(1, _slab(task) // _sample_bytes(task, data)), int(sizes.sum()) if total is None else total
    for begin in range(0, total, step):
        task.tick()
        count = torch.arange(begin, min(begin + step, total), device=task.device)
        owner = torch.searchsorted(ends, count, right=True)
        rows = data.offsets[clients[owner]] + count - (ends - sizes)[owner]
        yield owner, data.features(rows), data.labels(rows)


def _per_client(
    task: Task, predictor: Predictor, data: ClientData, clients: Int[Tensor, "n"]
) -> tuple[np.ndarray, np.ndarray]:
    """Clients of similar size together, padded to the largest of the group."""
    correct, loss = np.zeros(len(clients)), np.zeros(len(clients))
    with torch.no_grad():
        for group, rows, used in groups(task, predictor.params, data, clients):
            params, index = predictor.of_clients(clients[group]), group.cpu().numpy()
            step = max(1, _slab(task) // (len(group) * _sample_bytes(task, data)))  # all, except of one large client
            for begin in range(0, rows.shape[1], step):
                if begin > 0:
                    task.tick()
                part, is_used = rows[:, begin : begin + step], used[:, begin : begin + step]
                hits, losses = _scores(_stacked_logits(task, predictor, params, data.features(part)), data.labels(part))
                correct[index] += hits.where(is_used, 0).sum(1).cpu().numpy()
                loss[index] += losses.where(is_used, 0).sum(1).cpu().numpy()
    return correct, loss


def groups(
    task: Task, models: ClientParams, data: ClientData, clients: Int[Tensor, "n"]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(places in ``clients`` [A], rows of the data [A, B], whether a row is no padding [A, B]) of clients with samples.

    Largest first, in groups whose padded samples fit a slab, and whose ``models`` fit, too.
    """
    sizes_of = data.sizes[clients]
    order = sizes_of.argsort(descending=True, stable=True)
    order = order[: int((sizes_of > 0).sum())]
    sizes = sizes_of[order].tolist()
    model_bytes = sum(p.nbytes // len(p) for p in models.values())
    most = max(1, (_MODEL_BYTES_GPU if _is_on_gpu(task) else _MODEL_BYTES) // max(1, model_bytes))
    begin = 0
    while begin < len(order):
        task.tick()
        count = min(most, max(1, _slab(task) // (sizes[begin] * _sample_bytes(task, data))))
        group = order[begin : begin + count]
        own = sizes_of[group][:, None]
        place = torch.arange(sizes[begin], device=task.device)
        yield group, data.offsets[clients[group]][:, None] + place.minimum(own - 1), place < own
        begin += count


def _stacked_logits(task: Task, predictor: Predictor, params: SharedParams, x: Tensor) -> Tensor:
    if predictor.forward is None:
        return task.backend.logits(task.model, params, x)
    return task.backend.outputs(predictor.forward, params, x)


def _logits(task: Task, predictor: Predictor, params: SharedParams, x: Tensor) -> Tensor:
    return predictor.forward(params, x) if predictor.forward else task.model.logits(params, x)


def _scores(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(1 where the largest logit is the label, cross-entropy) of each sample, in double."""
    loss = F.cross_entropy(logits.flatten(0, -2).double(), y.flatten(), reduction="none").view(y.shape)
    return (logits.argmax(-1) == y).double(), loss


def _sample_bytes(task: Task, data: ClientData) -> int:
    """The memory of a sample, or of its widest intermediate result for models where that is much larger."""
    return max(1, math.prod(data.sample_shape), task.model.module.widest) * torch.finfo(data.dtype).bits // 8


def _slab(task: Task) -> int:
    return _SLAB_BYTES_GPU if _is_on_gpu(task) else _SLAB_BYTES


def _is_on_gpu(task: Task) -> bool:
    return task.device.type == "cuda"
