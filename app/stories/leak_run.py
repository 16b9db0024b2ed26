"""Federated training in which the server looks at what one client sends."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories.leak_attack import recovered, similarity, with_noise
from app.stories.mini_run import rounds
from app.stories.shared_steps import Run
from engine.simulation.sent_models import sent_models
from engine.simulation.simulate import Simulation

CLIENT = 0
NOISE_SEED = 11


@dataclass(frozen=True, eq=False)
class Leak:
    """The images behind one update, and what the server makes of it. Pixels are from 0 to 1."""

    images: np.ndarray  # [B, 64]
    guesses: np.ndarray  # [B, 64]

    @property
    def similarity(self) -> np.ndarray:
        """[B]: the correlation of each image with its reconstruction."""
        return similarity(self.images, self.guesses)

    @property
    def largest_error(self) -> float:
        """The largest difference of a pixel between an image and its reconstruction."""
        return float(np.abs(self.images - self.guesses).max())


@dataclass(frozen=True)
class LeakStep:
    """FedAvg with one local step, after a round."""

    round: int
    leak: Leak | None  # of this round; None before the first
    value: float  # mean similarity over the rounds so far; NaN before the first
    is_settled: bool


LeakRun = Run[LeakStep]


def steps(config: Mapping[str, Any], noise: float) -> Iterator[LeakStep]:
    """One client adds ``noise`` to what it sends. Training goes on without the noise."""
    leak: Leak | None = None
    similarities: list[float] = []  # mean over the batch, of every round
    for trained in rounds(config):
        mean = float(np.mean(similarities)) if similarities else math.nan
        yield LeakStep(trained.round, leak, mean, trained.is_over)
        if not trained.is_over:
            leak = _leak(trained.simulations[0], noise)
            similarities.append(float(leak.similarity.mean()))


def _leak(simulation: Simulation, noise: float) -> Leak:
    """What the client sends in the next round: one step of gradient descent from the shared model."""
    before, after = simulation.models().global_model, sent_models(simulation)
    assert before is not None
    lr = simulation.config.training.lr
    parts = [(before[f"head.{part}"] - after[f"head.{part}"][CLIENT]) / lr for part in ("weight", "bias")]
    gradient = np.column_stack([part.double().cpu().numpy() for part in parts])  # [C, d + 1]
    rng = np.random.default_rng((NOISE_SEED, simulation.config.seed, simulation.round))
    sent = with_noise(gradient, noise, rng)
    images, labels = _batch(simulation)
    return Leak(images, recovered(sent[:, :-1], sent[:, -1])[labels])


def _batch(simulation: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """([B, 64] images, [B] labels) that the client trains on in the next round."""
    task = simulation.task
    cohort = task.cohort(simulation.round + 1)
    at = cohort.clients.tolist().index(CLIENT)
    rows = cohort.plan.rows[at, 0, : cohort.plan.counts[0][at]]
    data = task.data.train
    return data.features(rows).flatten(1).double().cpu().numpy(), data.labels(rows).cpu().numpy()
