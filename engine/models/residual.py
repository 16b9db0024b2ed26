"""Residual networks for small images: a 3x3 stem without pooling, stages of blocks, group normalization.

Batch statistics would mix the samples of several clients, so every normalization is a GroupNorm (Wu,
He. Group Normalization. ECCV 2018), with as many parameters as the BatchNorm of the published networks. ``forward``
has no in-place operations and no randomness, so that many clients' networks can run as one.
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

Block = Callable[[int, int, int], nn.Module]
"""(channels in, channels out, stride) -> a block."""


class BasicBlock(nn.Module):
    """relu(x + norm(conv3x3(relu(norm(conv3x3(x)))))): He et al. 2016a, figure 5 left."""

    def __init__(self, channels_in: int, channels: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = conv3x3(channels_in, channels, stride), group_norm(channels, groups)
        self.conv2, self.norm2 = conv3x3(channels, channels), group_norm(channels, groups)
        self.shortcut = _projection(channels_in, channels, stride, groups)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, the last with four times the channels: He et al. 2016a, figure 5 right."""

    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int, groups: int) -> None:
        super().__init__()
        inner = channels // self.expansion
        self.conv1, self.norm1 = nn.Conv2d(channels_in, inner, 1, bias=False), group_norm(inner, groups)
        self.conv2, self.norm2 = conv3x3(inner, inner, stride), group_norm(inner, groups)
        self.conv3, self.norm3 = nn.Conv2d(inner, channels, 1, bias=False), group_norm(channels, groups)
        self.shortcut = _projection(channels_in, channels, stride, groups)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class PreActivationBlock(nn.Module):
    """x + conv3x3(relu(norm(conv3x3(relu(norm(x)))))): He et al. 2016b. Where the shape changes, the shortcut is a
    1x1 convolution of the normalized input."""

    def __init__(self, channels_in: int, channels: int, stride: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = group_norm(channels_in, groups), conv3x3(channels_in, channels, stride)
        self.norm2, self.conv2 = group_norm(channels, groups), conv3x3(channels, channels)
        keeps_shape = stride == 1 and channels_in == channels
        self.shortcut = None if keeps_shape else nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = F.relu(self.norm1(x))
        y = self.conv2(F.relu(self.norm2(self.conv1(activated))))
        return y + (x if self.shortcut is None else self.shortcut(activated))


class GlobalAverage(nn.Module):
    """Mean over the pixels: [B, C, H, W] -> [B, C]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def stages(block: Block, channels_in: int, channels: Sequence[int], blocks: Sequence[int]) -> nn.Sequential:
    """A sequence of stages; each but the first halves height and width in its first block."""
    made: list[nn.Module] = []
    for stage, (width, count) in enumerate(zip(channels, blocks, strict=True)):
        for i in range(count):
            made.append(block(channels_in, width, 2 if stage and i == 0 else 1))
            channels_in = width
    return nn.Sequential(*made)


def conv3x3(channels_in: int, channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)


def group_norm(channels: int, groups: int) -> nn.GroupNorm:
    """GroupNorm with at most ``groups`` equal groups of two or more channels: a single one would be 0 on a 1x1 map."""
    most = max(1, min(groups, channels // 2))
    return nn.GroupNorm(max(g for g in range(1, most + 1) if channels % g == 0), channels)


def _projection(channels_in: int, channels: int, stride: int, groups: int) -> nn.Module:
    """The shortcut: the identity, or a normalized 1x1 convolution if the shape changes."""
    if stride == 1 and channels_in == channels:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), group_norm(channels, groups))
