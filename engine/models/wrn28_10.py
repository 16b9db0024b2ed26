"""Wide ResNet 28-10: three stages of four pre-activation blocks, ten times as wide, group normalization.

Zagoruyko, Komodakis. Wide Residual Networks. BMVC 2016. 36.5 million parameters with 10 classes. Their dropout between
the convolutions of a block (unused in their main results) is omitted. Body: up to the global average; head: the output
layer.
"""

import math
from dataclasses import dataclass
from functools import partial

from pydantic import Field
from torch import nn

from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel
from engine.models.images import image_shape, with_channels
from engine.models.residual import GlobalAverage, PreActivationBlock, conv3x3, group_norm, stages

_STEM = 16


class WideResNetOptions(ModelOptions):
    width: int = Field(10, ge=1, le=32, title="k", description="Widening factor: stages of 16k, 32k and 64k channels.")
    groups: int = Field(
        32, ge=1, le=512, description="Maximum number of groups per normalization; a group has at least two channels."
    )


@MODELS.register(
    "wrn28_10", title="Wide ResNet 28-10", paper="Zagoruyko, Komodakis 2016, with GroupNorm; PLGU's for CIFAR-100"
)
@dataclass(frozen=True)
class WideResNet:
    options: WideResNetOptions

    @property
    def num_layers(self) -> int:
        """A width of 1 needs no convolution in the first shortcut."""
        return 29 if self.options.width > 1 else 28

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        width, groups = _STEM * self.options.width, self.options.groups
        channels, *sides = image_shape("wrn28_10", input_shape)
        body = nn.Sequential(
            *with_channels(input_shape),
            conv3x3(channels, _STEM),
            stages(partial(PreActivationBlock, groups=groups), _STEM, (width, 2 * width, 4 * width), (4, 4, 4)),
            group_norm(4 * width, groups),
            nn.ReLU(),
            GlobalAverage(),
        )
        return SplitModel(body, nn.Linear(4 * width, num_classes), widest=width * math.prod(sides))
