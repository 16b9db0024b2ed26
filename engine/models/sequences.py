"""Shared by the character models: their options, the samples that they accept, and their first and last layers."""

from pydantic import Field
from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.models import ModelOptions


class CharacterOptions(ModelOptions):
    """Options of models of character ids."""

    vocabulary: int = Field(
        81,
        ge=2,
        le=65_536,
        title="Vocabulary",
        description="Number of different ids of the data set, including 0; 81 for dataset shakespeare.",
    )


def text_length(model: str, input_shape: tuple[int, ...]) -> int:
    """L of samples [L]. Raises Unsupported for other shapes."""
    if len(input_shape) != 1:
        raise Unsupported(
            f"model {model} requires character ids [L], not samples of shape {list(input_shape)}; use dataset "
            "shakespeare, or a model of images such as cnn"
        )
    return input_shape[0]


class CharacterEmbedding(nn.Embedding):
    """[B, L] -> [B, L, dim]. Features always arrive as floating point, ids too."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.long())


class Last(nn.Module):
    """[B, L, units] -> [B, units]: the last position only."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]
