"""Logistic regression with one column for two classes: logits (0, w x + b). Yu et al.'s synthetic experiments."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from pydantic import Field
from torch import nn

from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.models import ModelOptions, OneColumn, SplitModel


class LogisticOptions(ModelOptions):
    l2: float = Field(
        0.0, ge=0, le=1e6, title="ℓ₂", description="Adds l2/2 ||w||² to the training loss, but not to reported losses."
    )


@MODELS.register(
    "logistic",
    title="Logistic regression",
    paper="Yu et al., The Effect of Personalization in FedProx, 2024, section 6.1",
)
@dataclass(frozen=True)
class Logistic:
    options: LogisticOptions
    num_layers: ClassVar[int] = 1

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        if num_classes != 2:
            raise Unsupported(f"model logistic supports two classes, the data has {num_classes}; use model: mlr")
        return SplitModel(nn.Flatten(), OneColumn(prod(input_shape)))
