"""A hashed bag of embeddings: the mean of a text's token embeddings, a hidden layer, an output layer.

After Joulin, Grave, Bojanowski, Mikolov. Bag of Tricks for Efficient Text Classification. EACL 2017. A sample is a row
of token ids, at least 1, padded with 0. Body: up to the hidden layer; head: the output layer.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel


class TextEmbeddingOptions(ModelOptions):
    buckets: int = Field(
        20_000,
        ge=3,
        le=2**22,
        description="Rows of the embedding table; must equal the number of buckets of the data set.",
    )
    dim: int = Field(32, ge=1, le=1024, description="Length of an embedding.")
    hidden: int = Field(32, ge=1, le=16384, description="Units of the hidden layer.")


class MeanEmbedding(nn.Embedding):
    """Mean over a text's tokens [B, L] -> [B, dim], ignoring the padding; an empty text is the zero vector.

    Features always arrive as floating point, ids too: integers below 2^22, which are exact.
    """

    def forward(self, x: Tensor) -> Tensor:
        ids = x.long()
        used = (ids != 0).to(self.weight.dtype)
        share = used / used.sum(1, keepdim=True).clamp(min=1)
        return torch.bmm(share[:, None], super().forward(ids))[:, 0]


@MODELS.register(
    "text_embedding", title="Bag of embeddings", paper="Joulin et al. 2017; for GPFL's (ICCV 2023) Amazon reviews"
)
@dataclass(frozen=True)
class TextEmbedding:
    options: TextEmbeddingOptions
    num_layers: ClassVar[int] = 3

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        if len(input_shape) != 1:
            raise Unsupported(
                f"model text_embedding requires token ids [L], not samples of shape {list(input_shape)}; "
                "use dataset amazon_review, or a model of images such as cnn"
            )
        h = self.options
        body = nn.Sequential(MeanEmbedding(h.buckets, h.dim), nn.Linear(h.dim, h.hidden), nn.ReLU())
        return SplitModel(body, nn.Linear(h.hidden, num_classes))
