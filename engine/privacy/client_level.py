"""Privacy of clients: updates are clipped, and the server adds noise to their sum.

DP-FedAvg with a fixed denominator (McMahan et al., ICLR 2018, Algorithm 1), q N being the expected participants:

    update = ( sum_i Delta_i min(1, C / ||Delta_i||) + N(0, (z C)^2 I) ) / (q N)

Every client counts alike: weights by samples would reveal their numbers and raise the sensitivity. With a population of
n, the noise is divided by q n instead: that of n clients at the same q and z. ``sampling: fixed`` rounds q N and q n.

Where the server keeps the first uploads of an over-selected cohort, another client takes the place of an absent one, so
the sum moves by up to 2 C, as it does where a client is replaced.

Adaptive C (Andrew et al., NeurIPS 2021): with b_i = 1 if ||Delta_i|| <= C, else 0, and m = q N,

    b = 1/2 + ( sum_i (b_i - 1/2) + N(0, s^2) ) / m,        C <- C exp(-clip_lr (b - quantile))

after the round's noise was drawn with the old C. With a population this noise is divided by q n, too. The noise of
updates grows so that both releases together cost z.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from engine.config.privacy import Privacy
from engine.core.errors import Unsupported
from engine.core.streams import numpy_stream, torch_stream
from engine.privacy import accounting

FIRST_CLIP = 0.1  # of clip: adaptive
_AUTO_EXPONENT = -1.1  # delta = n^-1.1


@dataclass(frozen=True)
class Release:
    """A noisy mean update, and what is recorded of it."""

    update: Float[Tensor, "P"]
    weight: Float[Tensor, "A"]  # the share of each Delta_i in the update
    next_clip: float
    values: dict[str, float]


@dataclass(frozen=True)
class ClientLevel:
    """The mechanism of a run. ``noise`` is the z that all releases of a round cost together."""

    options: Privacy
    seed: int
    num_clients: int
    participation: float  # q
    noise: float
    delta: float
    is_sampling_known: bool  # False: clients also stay out for other reasons, so q counts as 1 for epsilon
    makes_room: bool  # another client takes the place of an absent one

    @property
    def population(self) -> int:
        return self.options.population or self.num_clients

    @property
    def expected(self) -> float:
        """q N, or the number of participants where that is fixed."""
        if self.options.sampling == "fixed":
            return float(_fixed_size(self.participation, self.num_clients))
        return self.participation * self.num_clients

    @property
    def expected_of_population(self) -> float:
        """q n, or the number of participants for which epsilon is computed, if that number is fixed."""
        if self.options.sampling == "fixed":
            return float(_fixed_size(self.participation, self.population))
        return self.expected * self.population / self.num_clients

    @property
    def is_adaptive(self) -> bool:
        return self.options.clip == "adaptive"

    @property
    def first_clip(self) -> float:
        return FIRST_CLIP if isinstance(self.options.clip, str) else self.options.clip

    @property
    def count_noise(self) -> float:
        """s, of the count of clients that are not clipped."""
        return self.expected_of_population / 20 if self.options.count_noise is None else self.options.count_noise

    @property
    def update_noise(self) -> float:
        """z of the updates."""
        return accounting.noise_of_updates(self.noise, self.count_noise) if self.is_adaptive else self.noise

    def epsilon(self, releases: int) -> float:
        """Epsilon of the population after this many rounds, at ``delta``."""
        return self.epsilon_at(self.noise, releases)

    def epsilon_at(self, noise: float, releases: int) -> float:
        """Like ``epsilon``, with z = ``noise``."""
        rate = self.participation if self.is_sampling_known else 1.0
        if self.options.sampling == "fixed" or self.makes_room:
            participants = _fixed_size(rate, self.population)
            return accounting.epsilon_of_fixed_size(participants, self.population, noise, releases, self.delta)
        return accounting.epsilon(rate, noise, releases, self.delta)

    def release(self, delta: Float[Tensor, "A P"], clip: float, round: int) -> Release:
        """The noisy mean of these updates. ``clip``: C of this round."""
        norms = torch.linalg.vector_norm(delta, dim=1)
        factor = (clip / norms.clamp(min=clip)).to(delta.dtype)
        weight = factor / self.expected
        signal = weight @ delta
        drawn = torch.randn(delta.shape[1], generator=torch_stream(self.seed, "privacy", round), dtype=torch.float64)
        scale = self.update_noise * clip / self.expected_of_population
        noise = (drawn * scale).to(delta)
        values = {
            "privacy.clip": clip,
            "privacy.clipped": float((norms > clip).double().mean()) if len(norms) else 0.0,
            "privacy.noise_norm": float(torch.linalg.vector_norm(noise)),
            "privacy.signal_norm": float(torch.linalg.vector_norm(signal)),
        }
        return Release(signal + noise, weight, self._next_clip(norms, clip, round), values)

    def _next_clip(self, norms: Float[Tensor, "A"], clip: float, round: int) -> float:
        if not self.is_adaptive:
            return clip
        drawn = float(numpy_stream(self.seed, "privacy", round, "count").standard_normal())
        noise = self.count_noise * drawn if self.noise else 0.0
        counted = float(((norms <= clip).double() - 0.5).sum())
        share = 0.5 + counted / self.expected + noise / self.expected_of_population
        return clip * math.exp(-self.options.clip_lr * (share - self.options.quantile))


def client_level(
    options: Privacy,
    seed: int,
    num_clients: int,
    participation: float,
    rounds: int,
    *,
    is_sampling_known: bool,
    makes_room: bool = False,
) -> ClientLevel:
    """The mechanism, with the noise for ``epsilon`` after all rounds where that is given. Raises Unsupported."""
    population = options.population or num_clients
    if population < num_clients:
        raise Unsupported(
            f"privacy.population={population:,}, but there are {num_clients:,} clients; give at least as many, or none"
        )
    delta = max(population, 2) ** _AUTO_EXPONENT if options.delta == "auto" else float(options.delta)
    noise = 1.0 if options.noise is None else options.noise
    made = ClientLevel(options, seed, num_clients, participation, noise, delta, is_sampling_known, makes_room)
    if options.epsilon is not None:
        try:
            noise = accounting.noise_for(partial(made.epsilon_at, releases=rounds), options.epsilon)
        except ValueError as error:
            raise Unsupported(f"privacy.{error}; give a larger epsilon or delta, or fewer rounds") from error
        made = replace(made, noise=noise)
    if made.is_adaptive and noise >= 2 * made.count_noise:
        raise Unsupported(
            f"privacy.clip: 'adaptive', but {made.expected_of_population:g} clients a round are too few to count "
            f"privately with noise {noise:.3g}; fix clip, or lower noise below {2 * made.count_noise:g}"
        )
    return made


def _fixed_size(rate: float, clients: int) -> int:
    """How many of the clients take part in each round, as ``cohort_of_round`` draws them."""
    return max(1, round(rate * clients))
