"""Half precision: each number is rounded to 16 bits.

Micikevicius et al. Mixed Precision Training. ICLR 2018. https://arxiv.org/abs/1710.03740, for the formats.

    received_i <- Delta_i rounded to the format           16 bits a number; beyond its range, the largest number
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field

from engine.compressors import Compressed, Compressor, Updates
from engine.core.registry import COMPRESSORS, Options


class CastOptions(Options):
    to: Literal["float16", "bfloat16"] = Field(
        "float16", title="Format", description="float16 has more digits, bfloat16 the range of float32."
    )


@COMPRESSORS.register("cast", title="Half precision", paper="Micikevicius et al., ICLR 2018")
@dataclass(frozen=True)
class Cast(Compressor):
    options: CastOptions

    def compress(self, updates: Updates) -> Compressed:
        delta, half = updates.delta, getattr(torch, self.options.to)
        largest = torch.finfo(half).max
        return Compressed(delta.clamp(-largest, largest).to(half).to(delta.dtype), 16 * updates.num_values)
