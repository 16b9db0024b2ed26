"""Two 1-D convolutions along time, for inertial windows [channels, time]; no operation mixes time with channel.

Convolutions of 9 time steps with 32 and 64 channels, each with max-pooling by 2 and ReLU, then a hidden layer. Body: up
to the hidden layer; head: the output layer.
"""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.models import ModelOptions, SplitModel

_KERNEL = 9


class HarCnnOptions(ModelOptions):
    hidden: int = Field(512, ge=1, le=16384, description="Units of the fully connected hidden layer.")


@MODELS.register("har_cnn", title="1-D convolutions (HAR)", paper="A 1-D CNN for GPFL's (ICCV 2023) real-world task")
@dataclass(frozen=True)
class HarCnn:
    options: HarCnnOptions
    num_layers: ClassVar[int] = 4

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        if len(input_shape) != 2:
            raise Unsupported(
                f"model har_cnn requires windows [channels, time], not samples of shape {list(input_shape)}; "
                "use dataset har with its inertial signals, or model: har_mlp"
            )
        channels, time = input_shape
        left = ((time - _KERNEL + 1) // 2 - _KERNEL + 1) // 2
        if left < 1:
            raise Unsupported(f"model har_cnn requires at least 28 time steps, not {time}; use model: har_mlp")
        body = nn.Sequential(
            _FirstConvolution(channels, 32, _KERNEL),
            nn.MaxPool2d((1, 2)),
            nn.ReLU(),
            _Convolution(32, 64, _KERNEL),
            nn.MaxPool2d((1, 2)),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * left, self.options.hidden),
            nn.ReLU(),
        )
        return SplitModel(body, nn.Linear(self.options.hidden, num_classes), widest=32 * (time - _KERNEL + 1))


class _Convolution(nn.Conv1d):
    """Computed on images of height 1, whose channels lie last in memory: a step takes a quarter less time on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, 1, T] -> [B, O, 1, T']."""
        return F.conv2d(x, self.weight[:, :, None], self.bias)


class _FirstConvolution(_Convolution):
    def forward(self, x: Tensor) -> Tensor:
        """[B, C, T] -> [B, O, 1, T']."""
        return super().forward(x.mT.contiguous().mT[:, :, None])
