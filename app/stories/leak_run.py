"""Federated training in which the server looks at what one client sends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories.leak_attack import recovered, similarity, with_noise
from app.stories.mini_run import MiniRun
from engine.simulation.sent_models import sent_models

CLIENT = 0
NOISE_SEED = 11


@dataclass(frozen=True, eq=False)
class Leak:
    """The images behind one update, and what the server makes of it. Pixels are from 0 to 1."""

    images: np.ndarray  # [B, 64]
    guesses: np.ndarray  # [B, 64]

    @property
    def similarity(self) -> np.ndarray:
        """[B]"""
        return similarity(self.images, self.guesses)

    @property
    def largest_error(self) -> float:
        """Of any pixel."""
        return float(np.abs(self.images - self.guesses).max())


class LeakRun(MiniRun):
    """FedAvg with one local step; one client adds ``noise`` to what it sends. Training goes on without the noise."""

    def __init__(self, config: Mapping[str, Any], noise: float) -> None:
        self.noise = noise
        self.leak: Leak | None = None  # of the last round
        self.similarities: list[float] = []  # mean over the batch, of every round
        super().__init__(config)

    @property
    def value(self) -> float:
        """Mean over the rounds so far."""
        return float(np.mean(self.similarities))

    def _next(self) -> None:
        if self.results and not self.is_over:
            self.leak = self._look()
            self.similarities.append(float(self.leak.similarity.mean()))
        super()._next()

    def _look(self) -> Leak:
        """At what the client sends in the next round: one step of gradient descent from the shared model."""
        simulation = self.simulations[0]
        before, after = simulation.models().global_model, sent_models(simulation)
        assert before is not None
        lr = simulation.config.training.lr
        parts = [(before[f"head.{part}"] - after[f"head.{part}"][CLIENT]) / lr for part in ("weight", "bias")]
        gradient = np.column_stack([part.double().cpu().numpy() for part in parts])  # [C, d + 1]
        rng = np.random.default_rng((NOISE_SEED, simulation.config.seed, simulation.round))
        sent = with_noise(gradient, self.noise, rng)
        images, labels = self._batch()
        return Leak(images, recovered(sent[:, :-1], sent[:, -1])[labels])

    def _batch(self) -> tuple[np.ndarray, np.ndarray]:
        """([B, 64] images, [B] labels) that the client trains on in the next round."""
        task = self.simulations[0].task
        cohort = task.cohort(self.round + 1)
        at = cohort.clients.tolist().index(CLIENT)
        rows = cohort.plan.rows[at, 0, : cohort.plan.counts[0][at]]
        data = task.data.train
        return data.features(rows).flatten(1).double().cpu().numpy(), data.y[rows].cpu().numpy()
