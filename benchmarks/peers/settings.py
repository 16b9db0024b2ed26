"""Clients, data and training of each setting, and the options with which both sides do the same work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.turns import Job


@dataclass(frozen=True)
class Setting:
    """Clients with the same number of samples each, of whole batches, so that no library drops or pads one."""

    title: str
    models: tuple[str, ...]
    clients: int
    samples: int
    cohort: int
    batch_size: int
    lr: float
    shape: tuple[int, int, int] = (1, 28, 28)
    num_classes: int = 10

    def __str__(self) -> str:
        images = "x".join(map(str, self.shape))
        return (
            f"{self.title}: N = {self.clients}, {self.samples} samples each, cohort {self.cohort}, batch "
            f"{self.batch_size}, one epoch ({self.samples // self.batch_size} steps), lr {self.lr}, images {images}, "
            f"{self.num_classes} classes"
        )

    def write(self, folder: Path) -> Path:
        """Random data. 81 % of the pixels are 0, as in MNIST: PFLlib's files are compressed."""
        rng = np.random.default_rng(0)
        x = rng.integers(0, 256, (self.clients, self.samples, *self.shape), np.uint8)
        x *= rng.random(x.shape, np.float32) > 0.81
        y = np.arange(self.clients * self.samples).reshape(self.clients, self.samples) % self.num_classes
        folder.mkdir(exist_ok=True)
        np.savez(path := folder / "data.npz", x=x, y=y)
        return path

    def job(self, method: str, model: str, folder: Path, device: str = "cpu") -> Job:
        return Job(
            method=method,
            model=model,
            data=str(folder / "data.npz"),
            initial=str(folder / "initial.npz"),
            scratch=str(folder),
            clients=self.clients,
            samples=self.samples,
            cohort=self.cohort,
            batch_size=self.batch_size,
            lr=self.lr,
            local_epochs=1,
            num_classes=self.num_classes,
            device=device,
            options=dict(options(method, self.samples // self.batch_size, self.lr)),
        )


SETTINGS = {
    "mnist": Setting("MNIST's shape", ("mlr", "dnn"), clients=40, samples=640, cohort=40, batch_size=32, lr=0.005),
    "flute": Setting("FLUTE's LR_MNIST", ("mlr",), clients=1000, samples=60, cohort=10, batch_size=10, lr=0.03),
    "cifar10": Setting(
        "pfl-research's CIFAR-10", ("cnn",), 1000, samples=50, cohort=50, batch_size=10, lr=0.1, shape=(3, 32, 32)
    ),
    "femnist": Setting(
        "FEMNIST's size", ("cnn",), clients=3400, samples=100, cohort=10, batch_size=20, lr=0.1, num_classes=62
    ),
}
CHECKED = Setting("Equality", ("mlr", "dnn"), clients=4, samples=32, cohort=4, batch_size=32, lr=0.05)


def options(method: str, local_steps: int, lr: float) -> Mapping[str, Any]:
    """Of our method."""
    return {
        "fedprox": {"mu": 0.1},
        "ditto": {"lam": 1.0},
        "pfedme": {"lam": 15.0, "inner_steps": 5, "personal_lr": 0.01},
        "per_fedavg": {"variant": "fo", "alpha": lr},  # the peers have no Hessian
        "fedrep": {"head_steps": local_steps},  # an epoch, as the body
        "fedproto": {"lam": 1.0},
        "fedphp": {"lam": 0.05, "mu": 0.9},
        "gpfl": {"lam": 0.01, "mu": 0.1, "mlg": "frobenius"},  # as in the published code
    }.get(method, {})
