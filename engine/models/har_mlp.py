"""Two hidden layers of ReLU units, for the engineered features of activity recognition or flattened windows.

Body: the hidden layers; head: the output layer.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from pydantic import Field
from torch import nn

from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel


class HarMlpOptions(ModelOptions):
    hidden: int = Field(128, ge=1, le=16384, description="Units of each of the two hidden layers.")


@MODELS.register("har_mlp", title="Two hidden layers (HAR)", paper="A baseline for GPFL's (ICCV 2023) HAR task")
@dataclass(frozen=True)
class HarMlp:
    options: HarMlpOptions
    num_layers: ClassVar[int] = 3

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        if len(input_shape) > 2:
            raise Unsupported(
                f"model har_mlp requires features [F] or windows [channels, time], not samples of shape "
                f"{list(input_shape)}; use model: cnn or dnn, or dataset har"
            )
        hidden = self.options.hidden
        body = nn.Sequential(
            nn.Flatten(), nn.Linear(prod(input_shape), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        return SplitModel(body, nn.Linear(hidden, num_classes))
