"""A run's models with data: the global and one client's personalized model, on that client's data and on all."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from engine.algorithms import special_forward
from engine.analyses import AnalysisOptions
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.params import SharedParams
from engine.core.streams import numpy_stream
from engine.core.vocabulary import ModelKind
from engine.federation.clients import ClientData
from engine.task import Forward

On = Literal["own", "everyone"]
DataName = Literal["test", "train"]


class OnSamples(AnalysisOptions):
    """Options of analyses that measure models on samples."""

    client: int = Field(0, ge=0, le=1_000_000, description="Whose personalized model, and whose own data.")
    data: DataName = Field("test", title="Data", description="Test samples, or those trained on.")
    samples: int = Field(2000, ge=1, le=2000, title="Samples", description="At most this many, drawn at random.")


@dataclass(frozen=True)
class Samples:
    """Samples as model input."""

    x: Tensor  # [M, ...] floats
    y: Tensor  # [M]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Placed:
    """A model, its way to predict, and the samples to measure it on."""

    model: ModelKind
    on: On
    params: SharedParams
    special_forward: Forward | None  # if the method's models predict differently from the network
    samples: Samples

    @property
    def key(self) -> str:
        """``personalized_own``."""
        return f"{self.model}_{self.on}"


def place(subject: Subject, options: OnSamples) -> list[Placed]:
    """The global model (if any) and the client's own, each on the client's samples and on everyone's."""
    grounds: dict[On, Samples] = {"own": own_samples(subject, options), "everyone": pooled_samples(subject, options)}
    models: dict[ModelKind, tuple[SharedParams, Forward | None]] = {}
    shared = subject.global_model
    if shared is not None:
        models["global"] = shared.of_client(options.client), None
    forward = special_forward(subject.algorithm, subject.task.model)
    models["personalized"] = subject.movable_network_of(options.client), forward
    return [Placed(name, on, *model, samples) for name, model in models.items() for on, samples in grounds.items()]


def placed_own(subject: Subject, options: OnSamples, client: int) -> Placed:
    """A client's personalized model on its own samples."""
    samples = own_samples(subject, options.model_copy(update={"client": client}))
    forward = special_forward(subject.algorithm, subject.task.model)
    return Placed("personalized", "own", subject.movable_network_of(client), forward, samples)


def own_samples(subject: Subject, options: OnSamples) -> Samples:
    """Samples of the client. Raises Unsupported if it does not exist or has none."""
    client, last = options.client, subject.task.num_clients - 1
    if client > last:
        raise Unsupported(f"client: {client} does not exist; choose one from 0 to {last}")
    data = data_of(subject, options.data)
    start, end = data.offsets[client].item(), data.offsets[client + 1].item()
    if start == end:
        raise Unsupported(f"client {client} has no {options.data} samples; choose another client, or other data")
    return _draw(subject, data, int(start), int(end), options, client)


def pooled_samples(subject: Subject, options: OnSamples) -> Samples:
    """Samples of all clients, drawn uniformly."""
    data = data_of(subject, options.data)
    return _draw(subject, data, 0, data.num_samples, options, "everyone")


def data_of(subject: Subject, name: DataName) -> ClientData:
    return subject.task.data.test if name == "test" else subject.task.data.train


def _draw(subject: Subject, data: ClientData, start: int, end: int, options: OnSamples, whose: int | str) -> Samples:
    """All rows from ``start`` to ``end`` if there are few enough, else a sample without replacement."""
    count = end - start
    if count <= options.samples:
        rows = torch.arange(start, end, device=data.rows.device)
    else:
        stream = numpy_stream(subject.config.seed, "analysed samples", options.data, whose)
        drawn = stream.choice(count, options.samples, replace=False)
        drawn.sort()
        rows = torch.from_numpy(drawn + start).to(data.rows.device)
    return Samples(data.features(rows), data.labels(rows))
