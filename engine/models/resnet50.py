"""ResNet-50 for small images: 3x3 stem without max-pooling, stages of 3, 4, 6 and 3 bottlenecks, group normalization.

He, Zhang, Ren, Sun. Deep Residual Learning for Image Recognition. CVPR 2016. 23.52 million parameters at width 64 with
10 classes; a block's stride is in its 3x3 convolution. Body: up to the global average; head: the output layer.
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
from engine.models.residual import Bottleneck, GlobalAverage, conv3x3, group_norm, stages


class ResNet50Options(ModelOptions):
    width: int = Field(
        64, ge=2, le=512, description="Channels of the stem; the stages have 4, 8, 16 and 32 times as many."
    )
    groups: int = Field(
        32, ge=1, le=512, description="Maximum number of groups per normalization; a group has at least two channels."
    )


@MODELS.register("resnet50", title="ResNet-50", paper="He et al. 2016, with GroupNorm; PLGU's model for TinyImageNet")
@dataclass(frozen=True)
class ResNet50:
    options: ResNet50Options
    num_layers: ClassVar[int] = 54

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        width, groups = self.options.width, self.options.groups
        channels, *sides = image_shape("resnet50", input_shape)
        widths = [Bottleneck.expansion * width * times for times in (1, 2, 4, 8)]
        body = nn.Sequential(
            *with_channels(input_shape),
            conv3x3(channels, width),
            group_norm(width, groups),
            nn.ReLU(),
            stages(partial(Bottleneck, groups=groups), width, widths, (3, 4, 6, 3)),
            GlobalAverage(),
        )
        return SplitModel(body, nn.Linear(widths[-1], num_classes), widest=widths[0] * math.prod(sides))
