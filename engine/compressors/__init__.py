"""Compressors: what arrives of an update that is sent with fewer bits. One file each, in ``COMPRESSORS``.

A compressor is a frozen dataclass with ``options``. With ``feedback`` each client adds what was left out to its next
update (error feedback).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float, Int
from torch import Tensor

from engine.core.streams import integers


@dataclass(frozen=True)
class Updates:
    """The Deltas of A clients before they are sent."""

    delta: Float[Tensor, "A P"]
    tensors: Sequence[int]  # values in each tensor of an upload, in order: they sum to P
    num_values: Int[Tensor, "A"]  # that each client sends, P where it sends all
    clients: Int[Tensor, "A"]
    stream: int  # key of the random choices of this exchange

    @property
    def value_bits(self) -> int:
        """Bits of one number as it is."""
        return 8 * self.delta.element_size()

    def uniform(self) -> Float[Tensor, "A P"]:
        """Random numbers in [0, 1), by client and place."""
        drawn = integers(self.stream, self.clients, self.delta.shape[1])
        return (drawn >> 10).to(self.delta.dtype).mul_(2.0**-53).clamp_(max=1 - 2.0**-24)


@dataclass(frozen=True)
class Compressed:
    received: Float[Tensor, "A P"]
    bits: Int[Tensor, "A"]  # that each client sends


class Compressor(Protocol):
    @property
    def feedback(self) -> bool:
        """Whether clients add what was left out to their next update."""
        return False

    def compress(self, updates: Updates) -> Compressed | None:
        """What arrives; None: everything, as it is."""
