"""Keyed random streams: each random choice has a name, so nothing depends on call order, chunking or other clients.

A stream is ``(seed, purpose, ...)``: "data", "partition", "initial model", "cohort", "batches". Streams of single
clients come from a counter-based hash (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014), computed for all
clients at once in integer arithmetic, so they are the same on every device.
"""

import hashlib

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def key(seed: int, *purpose: object) -> int:
    """A 63-bit integer that identifies a stream."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_stream(seed: int, *purpose: object) -> np.random.Generator:
    return np.random.default_rng(key(seed, *purpose))


def torch_stream(seed: int, *purpose: object) -> torch.Generator:
    """A generator on the CPU, so that a GPU run draws the same numbers."""
    return torch.Generator().manual_seed(key(seed, *purpose))


def cohort_of_round(
    seed: int, round: int, num_clients: int, participation: float, among: np.ndarray | None = None
) -> np.ndarray:
    """Draws max(1, round(participation * N)) distinct clients, ascending; ``among``: those that can be drawn."""
    size, clients = max(1, _round(participation * num_clients)), np.arange(num_clients) if among is None else among
    if size >= len(clients):
        return clients
    return np.sort(numpy_stream(seed, "cohort", round).choice(clients, size, replace=False))


def poisson_cohort(
    seed: int, round: int, num_clients: int, participation: float, among: np.ndarray | None = None
) -> np.ndarray:
    """Draws each client on its own with the chance ``participation``, ascending; may be empty."""
    clients = np.arange(num_clients) if among is None else among
    if participation >= 1:
        return clients
    is_drawn = numpy_stream(seed, "sampled", round).random(num_clients) < participation
    return clients[is_drawn[clients]]


def permutation_prefix(
    stream: int | Int[Tensor, "S"], clients: Int[Tensor, "S"], sizes: Int[Tensor, "S"], largest: int, count: int
) -> Int[Tensor, "S J"]:
    """The first ``count`` entries of a random permutation of 0..size-1 for each client.

    ``stream`` is a key of everything but the client, or one for each; ``largest`` is that of the sizes. Entries beyond
    a client's size are arbitrary.
    """
    keys = integers(stream, clients, largest)
    places = torch.arange(keys.shape[1], device=sizes.device)
    keys = keys.masked_fill(places >= sizes[:, None], 0x7FFFFFFFFFFFFFFF)
    return _smallest(keys, min(count, keys.shape[1]))


def _smallest(keys: Int[Tensor, "S M"], count: int) -> Int[Tensor, "S J"]:
    """The places of the ``count`` smallest keys of each row, ascending. On a CPU NumPy sorts several times as fast."""
    if keys.device.type != "cpu":
        return keys.topk(count, dim=1, largest=False, sorted=True).indices
    values = keys.numpy()
    if count == values.shape[1]:
        return torch.from_numpy(values.argsort(1))
    first = values.argpartition(count, 1)[:, :count]
    order = np.take_along_axis(values, first, 1).argsort(1)
    return torch.from_numpy(np.take_along_axis(first, order, 1))


def integers(stream: int | Int[Tensor, "S"], clients: Int[Tensor, "S"], count: int) -> Int[Tensor, "S J"]:
    """``count`` random 63-bit integers per client; ``stream`` as in ``permutation_prefix``."""
    places = torch.arange(count, device=clients.device)
    of_client = _mix(stream + clients * _GOLDEN)
    return _mix(of_client[:, None] + places * _GOLDEN) & 0x7FFFFFFFFFFFFFFF


def normals(stream: int, clients: Int[Tensor, "S"], count: int, dtype: torch.dtype) -> Float[Tensor, "S J"]:
    """``count`` standard normal numbers per client, two of each of its integers (Box, Muller, 1958)."""
    drawn = integers(stream, clients, -(-count // 2))
    radius = ((drawn >> 31) + 1).to(dtype).mul_(2.0**-32).log_().mul_(-2).sqrt_()
    angle = (drawn & 0x7FFFFFFF).to(dtype).mul_(torch.pi * 2.0**-30)
    return torch.cat([angle.cos().mul_(radius), angle.sin_().mul_(radius)], dim=1)[:, :count]


def _mix(z: Tensor) -> Tensor:
    """The finaliser of SplitMix64; arithmetic shifts become logical ones by masking."""
    z = (z ^ (z >> 30 & 0x3FFFFFFFF)) * _MIX_1
    z = (z ^ (z >> 27 & 0x1FFFFFFFFF)) * _MIX_2
    return z ^ (z >> 31 & 0x1FFFFFFFF)


_round = round  # the built-in, which the parameter `round` hides above
