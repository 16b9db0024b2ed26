"""A network with one hidden layer of ReLU units. Body: the hidden layer; head: the output layer."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from pydantic import Field
from torch import nn

from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel


class DnnOptions(ModelOptions):
    hidden: int = Field(128, ge=1, le=16384, description="Units of the hidden layer.")


@MODELS.register("dnn", title="One hidden layer (DNN)", short="DNN", paper="The non-convex model of CGPFL (128 units)")
@dataclass(frozen=True)
class Dnn:
    options: DnnOptions
    num_layers: ClassVar[int] = 2

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        hidden = nn.Linear(prod(input_shape), self.options.hidden)
        return SplitModel(nn.Sequential(nn.Flatten(), hidden, nn.ReLU()), nn.Linear(self.options.hidden, num_classes))
