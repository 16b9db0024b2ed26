"""The devices of the clients: how fast they compute and send, and who can be sampled in a round.

    c_i <- compute_s exp(compute_spread g_i)            seconds for the gradient of a sample; g_i ~ N(0, 1)
    g_i <- s Phi^-1((rank_i + 1/2) / N) + sqrt(1 - s^2) g_i       with a tie of strength s
    up_i, down_i <- medians times exp(link_spread h_i)  h_i ~ N(0, 1)
    p_i <- a + b (1 - 2 (rank_i + 1/2) / N)             chance to be available; without a tie a
        b = s min(a, 1 - a), or less so that every p_i is at least min(a, 0.02) and their mean stays a

Everything is drawn once per run, by streams of the seed, so the same clients are slow for every method. A tie changes
who is slow, not how many: the quantiles of a normal distribution are assigned by rank. Clients with equal values are
ranked by their numbers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import ndtri

from engine.config.system import System
from engine.core.errors import Unsupported
from engine.core.streams import cohort_of_round, numpy_stream, poisson_cohort
from engine.federation.clients import Federation

LEAST_AVAILABLE = 0.02
_BYTES = 1e6 / 8  # in a megabit


@dataclass(frozen=True, eq=False)
class Systems:
    """The devices of N clients."""

    options: System
    seed: int
    speed: Float[np.ndarray, "N"]  # samples per second over that of the median device
    link: Float[np.ndarray, "N"]  # bits per second over those of the median link, both ways
    available: Float[np.ndarray, "N"]  # chance to be available in a round

    @property
    def num_clients(self) -> int:
        return len(self.speed)

    def compute_s(self, clients: Int[np.ndarray, "S"], samples: Float[np.ndarray, "S"]) -> Float[np.ndarray, "S"]:
        """Seconds for the gradients of so many samples."""
        return self.options.compute_s * samples / self.speed[clients]

    def send_s(
        self,
        clients: Int[np.ndarray, "S"],
        bytes_down: Float[np.ndarray, "S"],
        bytes_up: Float[np.ndarray, "S"],
    ) -> Float[np.ndarray, "S"]:
        """Seconds for receiving and sending so many bytes."""
        total = np.zeros(len(clients))
        for sent, mbit in ((bytes_down, self.options.down_mbit), (bytes_up, self.options.up_mbit)):
            if mbit is not None:
                total += sent / (mbit * _BYTES * self.link[clients])
        return total

    def dropped(self, round: int) -> Int[np.ndarray, "D"]:
        """The clients that vanish after training, if they take part in this round."""
        if not self.options.drop_out:
            return np.zeros(0, np.int64)
        return np.flatnonzero(
            numpy_stream(self.seed, "dropped", round).random(self.num_clients) < self.options.drop_out
        )

    def sampled(self, round: int, participation: float, is_poisson: bool = False) -> Int[np.ndarray, "S"]:
        """The participants of a round, ascending: drawn from the clients that are available.

        If nobody is available, one client is drawn, but nobody with ``is_poisson``: for privacy it must not matter to
        others whether a client is there.
        """
        share = min(1.0, participation * self.options.over_select)
        among = None if self.options.availability == 1 else self._available(round, is_poisson)
        draw = poisson_cohort if is_poisson else cohort_of_round
        return draw(self.seed, round, self.num_clients, share, among)

    def kept(self, participants: int, sampled: int, participation: float) -> int:
        """How many uploads the server waits for. A method that asks more clients than were sampled gets them all."""
        if self.options.over_select == 1 or participants > sampled:
            return participants
        return min(max(1, round(participation * self.num_clients)), participants)

    def _available(self, round: int, may_be_empty: bool) -> Int[np.ndarray, "A"]:
        """The clients that can be sampled; if nobody can, one that is drawn."""
        stream = numpy_stream(self.seed, "available", round)
        found = np.flatnonzero(stream.random(self.num_clients) < self.available)
        return found if len(found) or may_be_empty else stream.integers(self.num_clients, size=1)


def systems_of(options: System, data: Federation, seed: int) -> Systems:
    """The devices of these clients. Raises Unsupported if the tie is to contexts that the data do not have."""
    N, s, a = data.num_clients, options.tie_strength, options.availability
    score, link = (numpy_stream(seed, name).standard_normal(N) for name in ("speed", "link"))
    available = np.full(N, a)
    if options.tie != "none":
        place = (_ranks(options.tie, data) + 0.5) / N
        score = s * ndtri(place) + np.sqrt(1 - s**2) * score
        moved, least = s * min(a, 1 - a) * (1 - 2 * place), min(a, LEAST_AVAILABLE)
        if a + moved.min() < least:
            moved *= (least - a) / moved.min()
        available = a + moved
    speed = np.exp(-options.compute_spread * score)
    return Systems(options, seed, speed, np.exp(options.link_spread * link), available)


def _ranks(tie: str, data: Federation) -> Int[np.ndarray, "N"]:
    """The rank of each client from 0, by what it has in common with slow clients."""
    sizes = data.train.sizes.cpu().numpy()
    if tie == "size":
        values = sizes
    elif tie == "context":
        if data.contexts is None:
            raise Unsupported(
                "system.tie: 'context', but these data have no contexts; use tie: labels or size, or a partition or "
                "data set with contexts"
            )
        values = data.contexts
    else:
        labels = data.train.pool.y[data.train.rows].to(torch.float64).cpu()  # without an attack's changes
        owner = torch.repeat_interleave(torch.arange(len(sizes)), torch.from_numpy(sizes))
        sums = torch.bincount(owner, labels, minlength=len(sizes)).numpy()
        values = sums / np.maximum(sizes, 1)
    ranks = np.empty(len(sizes), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(sizes))
    return ranks
