"""Multinomial logistic regression: one linear layer on the flattened input. The body has no parameters."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from pydantic import Field
from torch import nn

from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel


class MlrOptions(ModelOptions):
    l2: float = Field(
        0.0, ge=0, le=1e6, title="ℓ₂", description="Adds l2/2 ||W||² to the training loss, but not to reported losses."
    )


@MODELS.register(
    "mlr", title="Softmax regression (MLR)", short="MLR", paper="The convex model of CGPFL and one-stage FedProx"
)
@dataclass(frozen=True)
class Mlr:
    options: MlrOptions
    num_layers: ClassVar[int] = 1

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        return SplitModel(nn.Flatten(), nn.Linear(prod(input_shape), num_classes))
