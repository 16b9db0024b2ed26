"""Attacks: what malicious clients train on and send. One file each, registered in ``ATTACKS``.

An attack is a frozen dataclass with ``options``. ``poison`` names the change of the training labels of malicious
clients, if any; ``corrupt`` replaces their Deltas, the uploads minus what these are measured from. Evaluation data stay
as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from engine.core.registry import Options

Poison = Literal["random", "reverse", "next"]
HOW = "random: drawn at random; reverse: C - 1 - y; next: y + 1, and 0 after the last class."


class AttackOptions(Options):
    """Options of all attacks."""

    advanced: ClassVar[tuple[str, ...]] = ()

    share: float = Field(
        0.2, ge=0, lt=1, title="Malicious share", description="Share of clients that are malicious, drawn once per run."
    )


@dataclass(frozen=True)
class Exchange:
    """The Deltas of a cohort of S clients before they are sent."""

    delta: Float[Tensor, "S P"]
    is_malicious: Bool[Tensor, "S"]
    draw: Callable[[int], torch.Generator]  # the stream of a row of the cohort

    @property
    def own(self) -> Float[Tensor, "m P"]:
        """The Deltas of the malicious clients, as trained."""
        return self.delta[self.is_malicious]


class Attack(Protocol):
    reads_others: ClassVar[bool] = False  # what malicious clients send depends on the uploads of the others

    @property
    def poison(self) -> Poison | None:
        """How the training labels of malicious clients are changed; None: they stay."""
        return None

    def corrupt(self, exchange: Exchange) -> Float[Tensor, "m P"] | None:
        """The Deltas that malicious clients send instead of their own; None: they send their own."""
        return None

    def weakness(self, uploads: int, num_malicious: int) -> str | None:
        """Why it is no attack if so many of these uploads are malicious, and what to do; None: it is one."""
        return None


def poisoned(labels: np.ndarray, how: Poison, num_classes: int, rng: np.random.Generator) -> np.ndarray:
    """[m] labels of one malicious client -> those that it trains on."""
    if how == "random":
        return rng.integers(num_classes, size=len(labels))
    return num_classes - 1 - labels if how == "reverse" else (labels + 1) % num_classes
