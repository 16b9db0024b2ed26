"""A small causal transformer that predicts the next character: blocks of attention and hidden layers, an output layer.

After Radford et al. (GPT, 2018), with the normalization before each sublayer as in GPT-2: the embeddings of character
and position are added, then each block adds masked self-attention and a hidden layer of GELU units. A position only
sees itself and earlier ones. The last hidden layer is computed at the last position only, which the output layer sees.
No dropout. Body: up to there; head: the output layer.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from engine.core.registry import MODELS
from engine.models import SplitModel
from engine.models.sequences import CharacterEmbedding, CharacterOptions, Last, text_length

_WIDER = 4  # the hidden layer has as many times the units of a block


class CharTransformerOptions(CharacterOptions):
    dim: int = Field(64, ge=1, le=1024, description="Length of an embedding, and width of the blocks.")
    num_heads: int = Field(4, ge=1, le=64, title="Heads", description="Attention heads; their number must divide dim.")
    num_layers: int = Field(2, ge=1, le=24, title="Layers", description="Number of blocks.")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.dim % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide dim={self.dim}; choose a divisor")
        return self


class Positions(nn.Module):
    """Adds the embedding of its position to each character, [B, L, dim]."""

    def __init__(self, length: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, dim))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class CausalAttention(nn.Module):
    """[B, L, dim] -> [B, L, dim]: softmax(Q K' / sqrt(dim/heads)) V of each head, over earlier positions.

    Written out, since PyTorch's fused attention has no second derivatives on a CPU.
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.queries_keys_values = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        L, dim = x.shape[-2:]
        heads = self.queries_keys_values(x).unflatten(-1, (3 * self.num_heads, -1)).transpose(-2, -3)
        q, k, v = heads.chunk(3, -3)  # [B, heads, L, dim / heads]
        later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT / math.sqrt(dim // self.num_heads)).masked_fill(later, -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(-2, -3).flatten(-2))


class Added(nn.Sequential):
    """x plus the output of the layers."""

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


@MODELS.register(
    "char_transformer",
    title="Transformer (characters)",
    paper="Radford, Narasimhan, Salimans, Sutskever. Improving Language Understanding by Generative Pre-Training. 2018",
)
@dataclass(frozen=True)
class CharTransformer:
    options: CharTransformerOptions

    @property
    def num_layers(self) -> int:
        """Two embeddings, four linear layers in each block, the output layer."""
        return 2 + 4 * self.options.num_layers + 1

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        length, o = text_length("char_transformer", input_shape), self.options
        layers: list[nn.Module] = [CharacterEmbedding(o.vocabulary, o.dim), Positions(length, o.dim)]
        for i in range(o.num_layers):
            layers.append(Added(nn.LayerNorm(o.dim), CausalAttention(o.dim, o.num_heads)))
            layers += [Last()] if i == o.num_layers - 1 else []
            hidden = nn.Linear(o.dim, _WIDER * o.dim), nn.GELU(), nn.Linear(_WIDER * o.dim, o.dim)
            layers.append(Added(nn.LayerNorm(o.dim), *hidden))
        body = nn.Sequential(*layers, nn.LayerNorm(o.dim))
        widest = length * max(_WIDER * o.dim, o.num_heads * length)  # a hidden layer, or the scores of attention
        return SplitModel(body, nn.Linear(o.dim, num_classes), widest)
