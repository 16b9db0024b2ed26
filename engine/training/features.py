"""The features of clients' samples, i.e. the outputs of a body, and their statistics by client and class.

They are flat: the samples of the first client, then those of the second, so that no client is padded. ``ClientData``
says which samples: all training data, or a selection of its rows. Samples are never augmented.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from engine.core.params import ClientParams, SharedParams, gather
from engine.federation.clients import ClientData
from engine.task import Task
from engine.training.evaluate import groups, slabs

REMEMBERED_BYTES = 64 * 2**20  # of sums of inputs, up to which they are kept for a run


@dataclass(frozen=True)
class ByClass:
    """Features of S clients, summed by class; 0 for a class without samples."""

    sums: Float[Tensor, "S C F"]
    counts: Int[Tensor, "S C"]

    @cached_property
    def means(self) -> Float[Tensor, "S C F"]:
        return self.sums / self.counts.clamp(min=1)[..., None]


@dataclass(frozen=True)
class Features:
    """Features and labels of the samples of S clients, client by client."""

    values: Float[Tensor, "M F"]
    labels: Int[Tensor, "M"]
    owner: Int[Tensor, "M"]  # the client's place among the S, ascending
    num_clients: int
    num_classes: int

    def total(self, values: Float[Tensor, "M *any"]) -> Float[Tensor, "S *any"]:
        """Values of the samples, summed by client."""
        return values.new_zeros(self.num_clients, *values.shape[1:]).index_add_(0, self.owner, values)

    @cached_property
    def sizes(self) -> Int[Tensor, "S"]:
        """The number of samples of each client."""
        return torch.bincount(self.owner, minlength=self.num_clients)

    @cached_property
    def class_counts(self) -> Int[Tensor, "S C"]:
        """The number of samples of each class."""
        cells = self.num_clients * self.num_classes
        return torch.bincount(self._cell, minlength=cells).view(self.num_clients, -1)

    @cached_property
    def class_sums(self) -> Float[Tensor, "S C F"]:
        """The sum of the features of each class; 0 for a class without samples."""
        shape = self.num_clients, self.num_classes, self.values.shape[1]
        return self.values.new_zeros(shape[0] * shape[1], shape[2]).index_add_(0, self._cell, self.values).view(shape)

    @cached_property
    def class_means(self) -> Float[Tensor, "S C F"]:
        """The mean feature of each class; 0 for a class without samples."""
        return self.by_class.means

    @cached_property
    def by_class(self) -> ByClass:
        return ByClass(self.class_sums, self.class_counts)

    def scatter(self, centers: Float[Tensor, "S C F"]) -> Float[Tensor, "S F F"]:
        """The sum of (f - c)(f - c)^T over each client's samples, c being the center of the sample's class."""
        gaps = self.values - centers[self.owner, self.labels]
        return torch.stack([own.T @ own for own in gaps.split(self.sizes.tolist())])

    @property
    def _cell(self) -> Int[Tensor, "M"]:
        """The place of each sample's class in a table with a row for each client, read line by line."""
        return self.owner * self.num_classes + self.labels


def shared_features(task: Task, model: SharedParams, data: ClientData, clients: Int[Tensor, "S"]) -> Features:
    """The features of the clients' samples of ``data`` under one body, in the precision of the run."""
    found = _none_yet(task, model, data, clients)
    model, begin = task.model.laid_out(model), 0
    with torch.no_grad():
        for owner, x, y in slabs(task, data, clients):
            rows = slice(begin, begin + len(y))
            found.values[rows] = task.model.features(model, x)
            found.labels[rows], found.owner[rows] = y, owner
            begin += len(y)
    return found


def stacked_features(task: Task, models: ClientParams, data: ClientData, clients: Int[Tensor, "S"]) -> Features:
    """Like ``shared_features``, with a body for each client: ``models`` [S, ...], in the order of ``clients``."""
    found = _none_yet(task, models, data, clients)
    sizes = data.sizes[clients]
    ends = sizes.cumsum(0)
    with torch.no_grad():
        for group, rows, is_used in groups(task, models, data, clients):
            place = (ends - sizes)[group][:, None] + torch.arange(rows.shape[1], device=task.device)
            used = place[is_used]
            found.values[used] = task.backend.features(gather(models, group), data.features(rows))[is_used]
            found.labels[used] = data.labels(rows)[is_used]
            found.owner[used] = group[:, None].expand_as(rows)[is_used]
    return found


def training_features_by_class(task: Task, models: ClientParams, clients: Int[Tensor, "S"]) -> ByClass:
    """The training data's features by class, under a body of each client: ``models`` [S, ...].

    Without a body these are the inputs, which do not change: they are summed once in a run, if the sums are small.
    """
    data = task.data
    size = data.num_clients * data.num_classes * math.prod(data.input_shape) * torch.finfo(task.dtype).bits // 8
    if type(task.model.module.body) is nn.Flatten and size <= REMEMBERED_BYTES:
        return ByClass(data.input_sums[clients], data.class_counts[clients])
    return stacked_features(task, models, data.train, clients).by_class


def _none_yet(task: Task, params: dict[str, Tensor], data: ClientData, clients: Int[Tensor, "S"]) -> Features:
    """Room for the features of all samples of the clients."""
    count, like = int(data.sizes[clients].sum()), next(iter(params.values()))
    values = torch.empty(count, task.feature_width, dtype=like.dtype, device=task.device)
    labels, owner = torch.empty(2, count, dtype=torch.int64, device=task.device)
    return Features(values, labels, owner, len(clients), task.data.num_classes)
