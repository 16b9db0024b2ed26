"""ResNet-18 for small images: 3x3 stem without max-pooling, four stages of two basic blocks, group normalization.

He, Zhang, Ren, Sun. Deep Residual Learning for Image Recognition. CVPR 2016. 11.17 million parameters at width 64 with
10 classes. Body: up to the global average; head: the output layer.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pydantic import Field
from torch import nn

from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel
from engine.models.images import image_shape, with_channels
from engine.models.residual import BasicBlock, GlobalAverage, conv3x3, group_norm, stages


class ResNet18Options(ModelOptions):
    width: int = Field(
        64, ge=2, le=512, description="Channels of the first stage; later stages have 2, 4 and 8 times as many."
    )
    groups: int = Field(
        32, ge=1, le=512, description="Maximum number of groups per normalization; a group has at least two channels."
    )


@MODELS.register("resnet18", title="ResNet-18", paper="He et al. 2016, with GroupNorm; PLGU's model for CIFAR-10")
@dataclass(frozen=True)
class ResNet18:
    options: ResNet18Options
    num_layers: ClassVar[int] = 21

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        width, groups = self.options.width, self.options.groups
        channels, *sides = image_shape("resnet18", input_shape)
        body = nn.Sequential(
            *with_channels(input_shape),
            conv3x3(channels, width),
            group_norm(width, groups),
            nn.ReLU(),
            stages(partial(BasicBlock, groups=groups), width, (width, 2 * width, 4 * width, 8 * width), (2, 2, 2, 2)),
            GlobalAverage(),
        )
        return SplitModel(body, nn.Linear(8 * width, num_classes), widest=width * math.prod(sides))
