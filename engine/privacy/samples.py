"""Privacy of samples: what the uploads of a client reveal of any single one of its samples (DP-SGD at each client).

Abadi et al. Deep Learning with Differential Privacy. CCS 2016. https://arxiv.org/abs/1607.00133, Algorithm 1. A batch
takes each of the m_i samples of client i with the chance q_i = B_i / m_i, B_i = min(B, m_i), and

    g = ( sum_j g_j min(1, C / ||g_j||) + N(0, (z_i C)^2 I) ) / B_i

Neighbors differ by one sample of the client, added or removed; m_i is public. Each g is a release. k releases from the
same batch (inner steps, the second gradient of SAM, two models) share its draw: together they are one Gaussian release
with z / sqrt(k), which protects less than k batches do. Epsilon takes a client's largest k for all its batches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.config.privacy import Privacy
from engine.core.errors import Unsupported
from engine.core.streams import key, normals
from engine.privacy.accounting import epsilon, noise_for

_AUTO_EXPONENT = -1.1  # delta = m_i^-1.1


@dataclass(frozen=True)
class ReleaseCounts:
    """How much each client has released so far."""

    batches: Int[np.ndarray, "N"]  # batches with a release
    most: Int[np.ndarray, "N"]  # the most releases from one batch

    @classmethod
    def zero(cls, num_clients: int) -> "ReleaseCounts":
        return cls(np.zeros(num_clients, np.int64), np.zeros(num_clients, np.int64))

    def to_dict(self) -> dict[str, list[int]]:
        return {"batches": self.batches.tolist(), "most": self.most.tolist()}

    @classmethod
    def from_dict(cls, stored: dict[str, list[int]]) -> "ReleaseCounts":
        return cls(*(np.array(stored[name], np.int64) for name in ("batches", "most")))


@dataclass
class Releases:
    """The releases of one round. Noise is keyed (seed, "privacy", round, client, number of its release)."""

    seed: int
    round: int
    noise: Float[np.ndarray, "N"]  # z_i
    made: dict[int, int] = field(default_factory=dict)  # by client
    of_batch: dict[tuple[int, str, int, int], int] = field(default_factory=dict)  # by client and batch
    sums: dict[str, Tensor] = field(default_factory=dict)  # what is recorded, over releases

    def count(self, clients: tuple[int, ...], stream: str, round: int, step: int) -> Int[Tensor, "A"]:
        """One more release of each client, from this batch; returns what identifies them among all of the round."""
        release_ids = []
        for client in clients:
            number = self.made.get(client, 0)
            self.made[client] = number + 1
            batch = (client, stream, round, step)
            self.of_batch[batch] = self.of_batch.get(batch, 0) + 1
            release_ids.append(client << 32 | number)
        return torch.tensor(release_ids)

    def undo_counts(self) -> Callable[[], None]:
        """Returns a function that takes back all releases since this call: their noise is drawn again."""
        made, of_batch, sums = dict(self.made), dict(self.of_batch), dict(self.sums)

        def undo() -> None:
            self.made, self.of_batch, self.sums = made, of_batch, sums

        return undo

    def draw(self, release_ids: Int[Tensor, "A"], count: int, like: Tensor) -> Float[Tensor, "A P"]:
        """Standard normal noise of these releases."""
        return normals(key(self.seed, "privacy", self.round), release_ids.to(like.device), count, like.dtype)

    def record(self, **values: Tensor) -> None:
        """Adds values of single releases [A], or of samples, to the sums of the round."""
        for name, value in values.items():
            total = value.double().sum()
            self.sums[name] = self.sums[name] + total if name in self.sums else total

    def values(self, clip: float) -> dict[str, float | Tensor]:
        """The share of samples that were clipped, and mean norms of a release's noise and signal."""
        found: dict[str, float | Tensor] = {"privacy.clip": clip}
        if self.sums:
            releases = sum(self.made.values())
            found["privacy.clipped"] = float(self.sums["clipped"] / self.sums["samples"].clamp(min=1))
            found |= {f"privacy.{n}": float(self.sums[n] / releases) for n in ("noise_norm", "signal_norm")}
        return found

    def after(self, counts: ReleaseCounts) -> ReleaseCounts:
        """All releases so far, this round's included."""
        batches, most = counts.batches.copy(), counts.most.copy()
        for (client, *_), releases in self.of_batch.items():
            batches[client] += 1
            most[client] = max(most[client], releases)
        return ReleaseCounts(batches, most)


@dataclass(frozen=True)
class SampleLevel:
    """The mechanism of a run, at every client."""

    options: Privacy
    seed: int
    rate: Float[np.ndarray, "N"]  # q_i
    delta: Float[np.ndarray, "N"]
    noise: Float[np.ndarray, "N"]  # z_i

    @property
    def clip(self) -> float:
        assert not isinstance(self.options.clip, str)
        return self.options.clip

    def open(self, round: int) -> Releases:
        return Releases(self.seed, round, self.noise)

    def epsilon(self, counts: ReleaseCounts) -> Float[np.ndarray, "N"]:
        """Epsilon of each client so far; 0 where nothing was released. Equal clients share a computation."""
        pairs = zip(self._costs(counts), self.noise.tolist(), strict=True)
        return np.array([_epsilon(*cost, noise) for cost, noise in pairs])

    def calibrated(self, planned: ReleaseCounts) -> "SampleLevel":
        """With the z_i at which the ``planned`` releases of a run cost each client ``epsilon``. Raises Unsupported."""
        target, noise = self.options.epsilon, {}
        assert target is not None
        for cost in dict.fromkeys(self._costs(planned)):
            try:
                noise[cost] = noise_for(partial(_epsilon, *cost), target) if cost[2] else 0.0
            except ValueError as error:
                raise Unsupported(f"privacy.{error}; give a larger epsilon or delta, or fewer rounds") from error
        return replace(self, noise=np.array([noise[cost] for cost in self._costs(planned)]))

    def _costs(self, counts: ReleaseCounts) -> list[tuple[float, float, int, int]]:
        """What epsilon depends on besides the noise: q_i, delta, ``batches`` and ``most``."""
        columns = (self.rate, self.delta, counts.batches, counts.most)
        return list(zip(*(values.tolist() for values in columns), strict=True))


def sample_level(options: Privacy, seed: int, sizes: Int[np.ndarray, "N"], batch_size: int) -> SampleLevel:
    """The mechanism for clients with these numbers of samples. With ``epsilon``, ``calibrated`` has the noise."""
    rate = np.minimum(batch_size, sizes) / sizes
    auto = np.maximum(sizes, 2.0) ** _AUTO_EXPONENT
    delta = auto if isinstance(options.delta, str) else np.full(len(sizes), options.delta)
    noise = np.full(len(sizes), 1.0 if options.noise is None else options.noise)
    return SampleLevel(options, seed, rate, delta, noise)


def _epsilon(rate: float, delta: float, batches: int, most: int, noise: float) -> float:
    return epsilon(rate, noise / math.sqrt(max(most, 1)), batches, delta)
