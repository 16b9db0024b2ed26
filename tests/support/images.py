"""Convolutions and normalizations of several clients: by our kernels, and what PyTorch computes in their place."""

import torch
from torch import Tensor
from torch.func import vjp
from torch.nn import functional as F

from engine.backends import image_kernels
from engine.backends.image_kernels import Shape

Pair = tuple[Tensor, Tensor]
EPS = 1e-5
# clients, images, (height, width), channels in and out, kernel, stride, padding
CONVOLUTIONS = [
    (2, 2, (5, 4), 3, 20, (3, 3), (1, 1), (1, 1)),
    (1, 2, (6, 6), 20, 3, (3, 3), (2, 2), (1, 1)),
    (2, 1, (5, 5), 3, 5, (1, 1), (2, 2), (0, 0)),
    (1, 2, (7, 6), 1, 2, (5, 5), (1, 1), (0, 0)),
    (1, 2, (5, 4), 3, 4, (1, 3), (2, 1), (0, 2)),
]
NORMALIZATIONS = [(2, 2, 5, 3, 8, 4), (1, 2, 4, 4, 16, 16), (2, 1, 1, 1, 8, 2), (1, 1, 33, 32, 64, 32)]


def convolution(
    clients: int,
    images: int,
    size: tuple[int, int],
    channels: int,
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> list[Pair]:
    """The output and the gradients at the input and the kernels, ours and PyTorch's."""
    draw = torch.Generator().manual_seed(0)
    shape = Shape(kernel, stride, padding, size)
    x = torch.randn(clients, images, *size, channels, generator=draw).to(device, dtype)
    weight = torch.randn(clients, *kernel, channels, outputs, generator=draw).to(device, dtype)
    error = torch.randn(clients, images, *shape.out, outputs, generator=draw).to(device, dtype)
    found = (
        image_kernels.convolve(x, weight, shape),
        image_kernels.input_gradient(error, weight, shape),
        image_kernels.weight_gradient(x, error, shape),
    )

    x, weight, error = (t.cpu().double() for t in (x, weight, error))
    expected = (
        convolve(x, weight, shape),
        input_gradient(error, weight, shape),
        weight_gradient(x, error, shape),
    )
    return list(zip(found, expected, strict=True))


def group_norm(
    clients: int,
    images: int,
    high: int,
    wide: int,
    channels: int,
    groups: int,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> list[Pair]:
    """The output and the gradients at the input, the scales and the shifts, ours and PyTorch's."""
    draw = torch.Generator().manual_seed(0)
    x = (3 * torch.randn(clients, images, high, wide, channels, generator=draw) + 5).to(device, dtype)
    error = torch.randn(x.shape, generator=draw).to(device, dtype)
    weight, bias = (torch.randn(clients, channels, generator=draw).to(device, dtype) for _ in range(2))
    out, mean, scale = image_kernels.normalize(x, weight, bias, groups, EPS)
    found = out, *image_kernels.normalize_gradient(error, x, weight, mean, scale)
    x, weight, bias, error = (t.cpu().double() for t in (x, weight, bias, error))
    out, mean, scale = normalize(x, weight, bias, groups, EPS)
    return list(zip(found, (out, *normalize_gradient(error, x, weight, mean, scale)), strict=True))


def convolve(x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    return torch.stack([_convolved(*own, shape) for own in zip(x, weight, strict=True)])


def input_gradient(error: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    x = error.new_zeros(*error.shape[:2], *shape.size, weight.shape[3])
    return vjp(lambda x: convolve(x, weight, shape), x)[1](error)[0]


def weight_gradient(x: Tensor, error: Tensor, shape: Shape) -> Tensor:
    weight = x.new_zeros(len(x), *shape.kernel, x.shape[4], error.shape[4])
    return vjp(lambda weight: convolve(x, weight, shape), weight)[1](error)[0]


def normalize(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    grouped = x.flatten(2, 3).unflatten(-1, (groups, -1))
    variance, mean = torch.var_mean(grouped, (2, 4), correction=0)
    out = torch.stack([_normalized(*own, groups, eps) for own in zip(x, weight, bias, strict=True)])
    return out, mean, (variance + eps).rsqrt()


def normalize_gradient(
    error: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    groups, bias = mean.shape[2], torch.zeros_like(weight)
    return vjp(lambda *inputs: normalize(*inputs, groups, EPS)[0], x, weight, bias)[1](error)


def _convolved(x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    """Of one client."""
    image, kernels = x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
    return F.conv2d(image, kernels, stride=shape.stride, padding=shape.padding).permute(0, 2, 3, 1)


def _normalized(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
    return F.group_norm(x.permute(0, 3, 1, 2), groups, weight, bias, eps).permute(0, 2, 3, 1)
