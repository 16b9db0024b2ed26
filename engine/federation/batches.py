"""Cohorts and their batches: the samples that each participant uses in each local step.

Each local epoch is a permutation, keyed (seed, stream, client, round, epoch); the short last batch is kept.
Participants are ordered by their number of steps, longest first, so that in step t the clients that still train are
the first ``live(t)`` rows of every stacked tensor: a view, no mask.

Where samples are private, a batch takes each of a client's m_i samples independently with the chance q_i = B / m_i,
keyed (seed, "poisson", stream, client, round, step): epsilon is computed for such batches. Their sizes vary.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import neg

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.core.devices import sent
from engine.core.streams import integers, key, permutation_prefix
from engine.federation.augmentation import CropFlip
from engine.federation.clients import ClientData


@dataclass(frozen=True)
class PoissonSampling:
    """The clients, stream and step of batches whose samples are drawn independently, as sample-level privacy needs."""

    client_ids: tuple[int, ...]
    expected: tuple[int, ...]  # q_i m_i, which gradients are divided by
    stream: str
    round: int
    step: int = 0

    def part(self, start: int, stop: int) -> "PoissonSampling":
        return replace(self, client_ids=self.client_ids[start:stop], expected=self.expected[start:stop])


_READ_AHEAD = 64  # steps
Shape = tuple[int, int, bool]
"""(A, B, whether there are weights) of a batch."""


@dataclass(frozen=True)
class Batch:
    """One step's samples of the clients that still train. Rows beyond a client's ``count`` are padding."""

    x: Tensor  # [A, B, ...]
    y: Int[Tensor, "A B"]
    weight: Float[Tensor, "A B"] | None  # 1/count (or 1/expected) on samples, 0 on padding; None: all full, 1/B
    counts: tuple[int, ...]
    rows: Int[Tensor, "A B"] | None = None  # places in the training data, padding's included; None for other samples
    sampling: PoissonSampling | None = None

    @property
    def size(self) -> int:
        return len(self.counts)

    @property
    def shape(self) -> Shape:
        return self.size, self.y.shape[1], self.weight is not None


@dataclass(frozen=True)
class Plan:
    """The batches of one local training: rows of the training data by client, step and index."""

    rows: Int[Tensor, "S T B"]  # places in the training data; T is 1 if every step uses all data
    counts: tuple[tuple[int, ...], ...]  # [T][S] samples in each batch, 0 after a client's last step
    steps: tuple[int, ...]  # [S], descending
    is_full: bool
    augmentation: CropFlip | None = None
    sampling: PoissonSampling | None = None

    @property
    def num_steps(self) -> int:
        return self.steps[0] if self.steps else 0

    @property
    def samples(self) -> tuple[int, ...]:
        """[S] the number of samples in all batches of each client."""
        if self.is_full:
            return tuple(n * count for n, count in zip(self.steps, self.counts[0], strict=True))
        return tuple(map(sum, zip(*self.counts, strict=True)))

    @property
    def gradient_evaluations(self) -> int:
        """The number of samples in all batches of all clients."""
        return sum(self.samples)

    @property
    def shapes(self) -> Iterator[Shape]:
        """The shape of each step's batch."""
        for step in range(self.num_steps):
            counts = self.counts[0 if self.is_full else step][: self.live(step)]
            width = max(1, *counts)
            yield len(counts), width, self.sampling is not None or min(counts) < width

    def live(self, step: int) -> int:
        """The number of clients that train in this step."""
        return bisect_left(self.steps, -step, key=neg)

    def part(self, start: int, stop: int) -> "Plan":
        """The plan for a slice of the clients."""
        steps = self.steps[start:stop]
        width = 1 if self.is_full else steps[0]
        counts = tuple(row[start:stop] for row in self.counts[:width])
        rows = self.rows[start:stop, :width, : max(1, *map(max, counts))]
        augmentation = self.augmentation.part(start, stop) if self.augmentation else None
        sampling = self.sampling and self.sampling.part(start, stop)
        return replace(self, rows=rows, counts=counts, steps=steps, augmentation=augmentation, sampling=sampling)

    def between(self, begin: int, end: int) -> "Plan":
        """Steps ``begin`` to ``end - 1``, for the clients that have any of them."""
        live = self.live(begin)
        steps = tuple(min(n, end) - begin for n in self.steps[:live])
        width = slice(1) if self.is_full else slice(begin, end)
        counts = tuple(row[:live] for row in self.counts[width])
        moved = self.augmentation and replace(self.augmentation, begin=self.augmentation.begin + begin)
        sampling = self.sampling and replace(self.sampling.part(0, live), step=self.sampling.step + begin)
        rows = self.rows[:live, width]
        return replace(self, rows=rows, counts=counts, steps=steps, augmentation=moved, sampling=sampling)

    def repeat(self, times: int) -> "Plan":
        """Each client ``times`` times in a row: the same batches for several models of its own."""

        def repeated(values: Sequence[int]) -> tuple[int, ...]:
            return tuple(value for value in values for _ in range(times))

        augmentation = self.augmentation
        if augmentation is not None:
            augmentation = replace(augmentation, clients=augmentation.clients.repeat_interleave(times))
        sampling = self.sampling
        if sampling is not None:
            sampling = replace(sampling, client_ids=repeated(sampling.client_ids), expected=repeated(sampling.expected))
        rows, counts = self.rows.repeat_interleave(times, 0), tuple(map(repeated, self.counts))
        steps = repeated(self.steps)
        return replace(self, rows=rows, counts=counts, steps=steps, augmentation=augmentation, sampling=sampling)

    def batches(self, data: ClientData) -> Iterator[Batch]:
        """Yields one batch per step."""
        whole = None
        for step, (rows, of_pool, y) in enumerate(self._samples(data)):
            if not (whole and whole.size == self.live(step)):
                batch = self._batch(data, step, rows, of_pool, y)
                whole = batch if self.is_full else None
            yield replace(batch, x=self.augmentation(batch.x, step)) if self.augmentation else batch

    def _samples(self, data: ClientData) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Places in ``data`` and in its pool, and labels, of each step [A, B], read for several steps at once."""
        for begin in range(0, self.num_steps, _READ_AHEAD):
            end = min(begin + _READ_AHEAD, self.num_steps)
            rows = self.rows[: self.live(begin), slice(1) if self.is_full else slice(begin, end)]
            of_pool = data.rows[rows]
            labels = data.pool_labels(of_pool, rows)
            for step in range(begin, end):
                live, column = self.live(step), 0 if self.is_full else step - begin
                yield rows[:live, column], of_pool[:live, column], labels[:live, column]

    def _batch(self, data: ClientData, step: int, rows: Tensor, of_pool: Tensor, labels: Tensor) -> Batch:
        live = len(rows)
        counts = self.counts[0 if self.is_full else step][:live]
        width = max(1, *counts)
        sampling = self.sampling and replace(self.sampling.part(0, live), step=self.sampling.step + step)
        weight = _weight(counts, data) if sampling is None else _weight_of(counts, sampling.expected, width, data)
        x = data.pool_features(of_pool[:, :width])
        return Batch(x, labels[:, :width], weight, counts, rows[:, :width], sampling)


@dataclass(frozen=True)
class Cohort:
    """The participants of a round, in the order of their stacked tensors: most steps first."""

    round: int
    clients: Int[Tensor, "S"]
    client_ids: tuple[int, ...]  # ``clients`` as integers on the host
    weights: Float[Tensor, "S"]  # m_i over the participants' sum
    plan: Plan
    stream: str = "batches"  # the random stream of the plan's batches

    @property
    def size(self) -> int:
        return len(self.clients)

    @property
    def uniform(self) -> Float[Tensor, "S"]:
        """The same cohort with weights 1/S."""
        return torch.full_like(self.weights, 1 / self.size)


def num_local_steps(size: int, batch_size: int | str, steps: int | None, epochs: int | None) -> int:
    """The local steps of a client with ``size`` samples."""
    if steps is not None:
        return steps
    per_epoch = 1 if batch_size == "full" else -(-size // min(int(batch_size), size))
    return per_epoch * (epochs or 1)


def num_local_samples(size: int, batch_size: int | str, steps: int | None, epochs: int | None) -> int:
    """The samples in the batches of these local steps; the last batch of an epoch may be smaller."""
    batch = size if batch_size == "full" else min(int(batch_size), size)
    whole, rest = divmod(num_local_steps(size, batch_size, steps, epochs), -(-size // batch))
    return whole * size + rest * batch


@dataclass(frozen=True)
class BatchRequest:
    """Which batches to draw: the sizes, first rows and steps of some clients, and the random stream."""

    sizes: Sequence[int]
    starts: Int[Tensor, "S"]
    clients: Int[Tensor, "S"]
    steps: Sequence[int]  # descending
    batch_size: int | str
    seed: int
    stream: str
    round: int

    def key(self, epoch: int) -> int:
        return key(self.seed, self.stream, self.round, epoch)


def make_plan(request: BatchRequest) -> Plan:
    """Draws batches. Each client's batches are independent of the other clients. Nothing is read from the device."""
    return make_plans([request])[0]


def make_plans(requests: Sequence[BatchRequest]) -> list[Plan]:
    """``make_plan`` of several runs with the same batch size, at once."""
    if requests[0].batch_size == "full":
        return [_full_plan(request.sizes, request.starts, request.steps) for request in requests]
    counts_of = [len(request.steps) for request in requests]
    starts, clients = (torch.cat([getattr(request, name) for request in requests]) for name in ("starts", "clients"))
    own, total = (np.array([n for request in requests for n in getattr(request, name)]) for name in ("sizes", "steps"))
    device, num, num_steps, largest = starts.device, len(total), int(total.max()), int(own.max())
    batch = np.minimum(own, int(requests[0].batch_size))
    per_epoch, width = -(-own // batch), int(batch.max())
    m, b, epoch_steps = (sent(values, device)[:, None] for values in (own, batch, per_epoch))
    rows = starts[:, None].repeat(1, num_steps * width + 1)  # the last column takes what no step uses
    for epoch in range(int((-(-total // per_epoch)).max())):
        left = np.minimum(np.maximum(total - epoch * per_epoch, 0) * batch, own)  # samples of this epoch
        streams = _per_client([request.key(epoch) for request in requests], counts_of, device)
        order = permutation_prefix(streams, clients, m[:, 0], largest, int(left.max()))
        place = torch.arange(order.shape[1], device=device)
        target = (epoch * epoch_steps + place // b) * width + place % b
        is_unused = place >= sent(left, device)[:, None]
        rows.scatter_(1, target.masked_fill(is_unused, num_steps * width), starts[:, None] + order)
    number = np.arange(num_steps)[:, None]
    counts = np.minimum(batch, own - number % per_epoch * batch) * (number < total)
    rows, plans, begin = rows[:, :-1].view(num, num_steps, width), [], 0
    for request, count in zip(requests, counts_of, strict=True):
        of_run, steps = slice(begin, begin + count), tuple(request.steps)
        used = rows[of_run, : steps[0], : int(batch[of_run].max())]
        plans.append(Plan(used, tuple(map(tuple, counts[: steps[0], of_run].tolist())), steps, False))
        begin += count
    return plans


def _per_client(streams: list[int], counts: list[int], device: torch.device) -> int | Tensor:
    """The stream of each client, repeated from the streams of the runs."""
    if len(streams) == 1:
        return streams[0]
    return sent(np.repeat(streams, counts), device)


def _full_plan(sizes: Sequence[int], starts: Tensor, steps: Sequence[int]) -> Plan:
    m = sent(sizes, starts.device)
    place = torch.arange(max(sizes), device=starts.device)
    rows = starts[:, None] + place.expand(len(sizes), -1).masked_fill(place >= m[:, None], 0)
    return Plan(rows[:, None], (tuple(sizes),), tuple(steps), True)


def poisson_plan(
    sizes: Sequence[int],
    starts: Int[Tensor, "S"],
    clients: Sequence[int],
    steps: list[int],
    batch_size: int,
    seed: int,
    stream: str,
    round: int,
) -> Plan:
    """Draws each sample of each batch independently, so that a batch has ``batch_size`` samples in expectation.

    Clients with fewer samples use all of them. ``steps`` are descending.
    """
    expected, ids = [min(size, batch_size) for size in sizes], torch.tensor(clients)
    place, m = torch.arange(max(sizes)), torch.tensor(sizes)
    most = [int(b / size * 2**63) - 1 if b < size else 2**63 - 1 for b, size in zip(expected, sizes, strict=True)]
    chosen, counts = [], []
    for step in range(max(steps)):
        live = sum(n > step for n in steps)
        drawn = integers(key(seed, "poisson", stream, round, step), ids[:live], len(place))
        is_in = (drawn <= torch.tensor(most[:live])[:, None]) & (place < m[:live, None])
        chosen.append(is_in)
        counts.append(tuple(is_in.sum(1).tolist()) + (0,) * (len(sizes) - live))
    rows = torch.zeros(len(sizes), max(steps), max(1, *map(max, counts)), dtype=torch.long)
    for step, is_in in enumerate(chosen):
        client, sample = is_in.nonzero(as_tuple=True)
        rows[client, step, is_in.cumsum(1)[client, sample] - 1] = sample
    of_clients = PoissonSampling(tuple(clients), tuple(expected), stream, round)
    return Plan(rows.to(starts.device) + starts[:, None, None], tuple(counts), tuple(steps), False, sampling=of_clients)


def _weight_of(counts: tuple[int, ...], expected: tuple[int, ...], width: int, data: ClientData) -> Tensor:
    """1 / expected on samples, so that sums of gradients are divided by the expected size."""
    device = data.rows.device
    is_sample = torch.arange(width, device=device) < sent(counts, device)[:, None]
    return is_sample / sent(expected, device, data.dtype)[:, None]


def _weight(counts: tuple[int, ...], data: ClientData) -> Tensor | None:
    width = max(counts)
    if min(counts) == width:
        return None
    count = sent(counts, data.rows.device, data.dtype)[:, None]
    return (torch.arange(width, device=count.device) < count) / count
