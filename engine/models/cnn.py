"""A CNN with two convolutions and two fully connected layers, common in the personalized-FL literature.

Convolutions 5x5 with 32 and 64 channels, each with 2x2 max-pooling and ReLU, then a hidden layer of 512: the network of
McMahan et al. 2017 without padding, as pFedMe, Per-FedAvg and CGPFL's comparisons use it. Head: the output layer.
"""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field
from torch import nn

from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel
from engine.models.images import image_shape, with_channels


class CnnOptions(ModelOptions):
    hidden: int = Field(512, ge=1, le=16384, description="Units of the fully connected hidden layer.")


@MODELS.register(
    "cnn",
    title="Two convolutions (CNN)",
    short="CNN",
    paper="McMahan et al. 2017, section 3; the CIFAR-10 model of CGPFL",
)
@dataclass(frozen=True)
class Cnn:
    options: CnnOptions
    num_layers: ClassVar[int] = 4

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        channels, height, width = image_shape("cnn", input_shape)
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        if rows < 1 or columns < 1:
            raise Unsupported(
                f"model cnn requires images of at least 16 x 16 pixels, not {height} x {width}; use mlr or dnn"
            )
        body = nn.Sequential(  # ReLU after pooling: equal results at a quarter of the cost
            *with_channels(input_shape),
            nn.Conv2d(channels, 32, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * rows * columns, self.options.hidden),
            nn.ReLU(),
        )
        return SplitModel(body, nn.Linear(self.options.hidden, num_classes), widest=32 * (height - 4) * (width - 4))
