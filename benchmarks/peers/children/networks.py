"""Our networks for the libraries that use PyTorch, and a count of the gradients that they compute."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.peers.turns import Job, Turns


class Network(nn.Module):
    """A body, and a linear layer ``fc``, which PFLlib takes off where a method splits the model."""

    def __init__(self, body: nn.Module, features: int, num_classes: int) -> None:
        super().__init__()
        self.body = body
        self.fc = nn.Linear(features, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.body(x))
        return logits


def network(job: Job, shape: tuple[int, ...], make: type[Network] = Network) -> Network:
    """The network of `engine/models/` with this name, with the job's initial weights, on its device."""
    channels, height, width = shape
    if job.model == "mlr":
        made = make(nn.Flatten(), channels * height * width, job.num_classes)
    elif job.model == "dnn":
        body = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, 128), nn.ReLU())
        made = make(body, 128, job.num_classes)
    else:
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        convolutions = [nn.Conv2d(channels, 32, 5), nn.MaxPool2d(2), nn.ReLU()]
        convolutions += [nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()]
        body = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(64 * rows * columns, 512), nn.ReLU())
        made = make(body, 512, job.num_classes)
    load_weights(made, job.load_initial())
    return made.to(job.device)


def load_weights(module: nn.Module, arrays: Iterable[np.ndarray]) -> None:
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.copy_(torch.from_numpy(np.array(array)))


def weights(module: nn.Module) -> list[np.ndarray]:
    return [parameter.detach().cpu().numpy().copy() for parameter in module.parameters()]


def tensors(job: Job) -> tuple[Tensor, Tensor]:
    """All samples as the libraries hold them: float32 in [0, 1], and int64."""
    x, y = job.load()
    return torch.from_numpy(x).float().div_(255), torch.from_numpy(y)


class Counter:
    """Counts the samples of every cross-entropy that is differentiated, in the round that is counted."""

    def __init__(self, turns: Turns) -> None:
        self._turns, self._loss = turns, functional.cross_entropy

    def begin(self) -> None:
        """At the begin of each round."""
        functional.cross_entropy = self._loss
        if self._turns.is_counted:
            self._turns.samples = 0
            functional.cross_entropy = self._counted

    def _counted(self, input: Tensor, *rest: Any, **options: Any) -> Tensor:
        if input.requires_grad and self._turns.samples is not None:
            self._turns.samples += len(input)
        loss: Tensor = self._loss(input, *rest, **options)
        return loss
