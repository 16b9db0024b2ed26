"""QSGD: each number is rounded to one of a few levels, up or down at random, so that it is right on average.

Alistarh, Grubic, Li, Tomioka, Vojnovic. QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding.
NeurIPS 2017. https://arxiv.org/abs/1610.02132, section 3.1.

    s <- 2^(bits - 1) - 1                                 levels; the sign apart
    x <- |v| s / norm                                     v: a number of a tensor, norm: that of the tensor
    received <- norm sign(v) (floor(x) or ceil(x)) / s    up with chance x - floor(x)

Bits: one number for the norm of each tensor, and ``bits`` for each number. Fixed length; the paper's Elias code, which
is shorter for few levels, is not counted. With ``norm: l2`` the squared error is below min(P/s^2, sqrt(P)/s) ||v||^2.

With feedback the norm is sent times <v, received> / ||received||^2, which makes the error smallest: it is never longer
than v. Otherwise an error that is longer than v, as with few bits and large tensors, would grow from round to round
(Karimireddy et al., ICML 2019: error feedback needs a contraction).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.compressors import Compressed, Compressor, Updates
from engine.core.registry import COMPRESSORS, Options


class QsgdOptions(Options):
    bits: int = Field(4, ge=2, le=16, description="Bits per value, including the sign; fewer = smaller and noisier.")
    norm: Literal["l2", "max"] = Field(
        "l2", description="Scale of the levels: the L2 norm or the largest absolute value."
    )
    feedback: bool = Field(False, title="Error feedback", description="Add what was lost to the client's next update.")


@COMPRESSORS.register("qsgd", title="QSGD", paper="Alistarh et al., NeurIPS 2017")
@dataclass(frozen=True)
class Qsgd(Compressor):
    options: QsgdOptions

    @property
    def feedback(self) -> bool:
        return self.options.feedback

    def compress(self, updates: Updates) -> Compressed:
        levels, chance = 2 ** (self.options.bits - 1) - 1, updates.uniform()
        pieces = zip(
            updates.delta.split(list(updates.tensors), dim=1), chance.split(list(updates.tensors), dim=1), strict=True
        )
        received = torch.cat([self._quantized(v, u, levels) for v, u in pieces], dim=1)
        bits = updates.value_bits * len(updates.tensors) + self.options.bits * updates.num_values
        return Compressed(received, bits)

    def _quantized(self, v: Float[Tensor, "A p"], u: Float[Tensor, "A p"], levels: int) -> Float[Tensor, "A p"]:
        order = 2 if self.options.norm == "l2" else torch.inf
        norm = torch.linalg.vector_norm(v, order, dim=1, keepdim=True)
        x = v.abs() * (levels / norm.where(norm > 0, 1.0))
        low = x.floor()
        received = norm * v.sign() * (low + (u < x - low)) / levels
        return _nearest(v, received) if self.options.feedback else received


def _nearest(v: Float[Tensor, "A p"], received: Float[Tensor, "A p"]) -> Float[Tensor, "A p"]:
    """Each row of ``received`` times the number that brings it nearest to ``v``."""
    squares = received.square().sum(1, keepdim=True)
    return received * ((v * received).sum(1, keepdim=True) / squares.where(squares > 0, 1.0))
