"""Layers of image models that are fast for many clients at once on a GPU.

With a weight for each client, PyTorch computes one grouped convolution, for which cuDNN has no fast kernels, and none
that use TF32. Here the patches of the images become rows of a matrix, and one batched product serves all clients. That
takes more memory: up to k^2 times the layer's input for a kernel of k x k, kept until the backward pass. In bfloat16,
the kernels of ``image_kernels`` need no patches.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from subprocess import SubprocessError
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.models import Model

MAX_KERNEL = 9  # taps; measured: 3x3 is faster than a grouped convolution, 5x5 is not
MAX_CHANNELS = 4096  # of a normalization: those of an image's pixel are read at once


def for_gpu(model: Model, has_kernels: bool) -> Model:
    """The same model with such layers. Its parameters have the same names and shapes.

    ``has_kernels``: a model whose layers all compute in bfloat16, where ``can_compile()``.
    """
    module = copy.deepcopy(model.module)
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if (faster := _faster(layer, has_kernels)) is not None:
                setattr(parent, name, faster)
    is_changed = any(isinstance(layer, _Convolution | _GroupNorm) for layer in module.modules())
    return replace(model, module=module) if is_changed else model


def _faster(layer: nn.Module, has_kernels: bool) -> nn.Module | None:
    if isinstance(layer, nn.Conv2d) and _is_small(layer):
        return _Convolution(layer, has_kernels)
    if isinstance(layer, nn.GroupNorm) and _has_powers_of_two(layer) and has_kernels:
        return _GroupNorm(layer)
    return None


def _is_small(layer: nn.Conv2d) -> bool:
    return (
        layer.kernel_size[0] * layer.kernel_size[1] <= MAX_KERNEL
        and layer.groups == 1
        and set(layer.dilation) == {1}
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


def _has_powers_of_two(layer: nn.GroupNorm) -> bool:
    sizes = layer.num_channels, layer.num_groups
    return layer.affine and layer.num_channels <= MAX_CHANNELS and all(size & (size - 1) == 0 for size in sizes)


@cache
def can_compile() -> bool:
    """Whether Triton can compile products in bfloat16 for this machine's GPU; for that it needs a C compiler.

    To be asked outside of ``vmap`` and ``grad``, whose tensors Triton cannot read.
    """
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        return False
    try:
        from engine.backends.image_kernels import normalize

        ones = torch.ones(1, 1, 1, 1, 1, device="cuda")
        normalize(ones, ones[0, 0, 0], ones[0, 0, 0], groups=1, eps=1.0)
    except (ImportError, OSError, RuntimeError, SubprocessError):
        return False
    return True


class _Convolution(nn.Module):
    """Computes ``layer``. Its parameters give names and shapes; a call passes the values."""

    def __init__(self, layer: nn.Conv2d, has_kernels: bool) -> None:
        super().__init__()
        self.has_kernels = has_kernels
        self.weight, self.bias = layer.weight, layer.bias
        assert not isinstance(layer.padding, str)
        self.kernel, self.stride, self.padding = layer.kernel_size, layer.stride, layer.padding

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, O, H', W'], channels last in memory."""
        pixels, weight = x.permute(0, 2, 3, 1), self.weight.permute(2, 3, 1, 0)
        out = self._by_kernel(pixels, weight) if self.has_kernels else self._by_product(pixels, weight)
        if self.bias is not None:
            out = out + self.bias
        return out.permute(0, 3, 1, 2)

    def _by_kernel(self, pixels: Tensor, weight: Tensor) -> Tensor:
        from engine.backends.image_functions import Convolution
        from engine.backends.image_kernels import Shape

        shape = Shape(self.kernel, self.stride, self.padding, (pixels.shape[1], pixels.shape[2]))
        apply: Callable[..., Tensor] = Convolution.apply
        return apply(pixels[None], weight[None], shape)[0]

    def _by_product(self, pixels: Tensor, weight: Tensor) -> Tensor:
        high, wide = self.padding
        patches = _Patches.apply(F.pad(pixels, (0, 0, wide, wide, high, high)), self.kernel, self.stride)
        return (patches.flatten(0, 2) @ weight.flatten(0, 2)).view(*patches.shape[:3], -1)


class _GroupNorm(nn.Module):
    """Computes ``layer`` on images with the channels last in memory, as convolutions return them."""

    def __init__(self, layer: nn.GroupNorm) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.groups, self.eps = layer.num_groups, layer.eps

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> the same shape."""
        if x.dim() != 4:
            return F.group_norm(x, self.groups, self.weight, self.bias, self.eps)
        from engine.backends.image_functions import GroupNorm

        pixels = x.permute(0, 2, 3, 1)[None]
        out, *_ = GroupNorm.apply(pixels, self.weight[None], self.bias[None], self.groups, self.eps)
        return out[0].permute(0, 3, 1, 2)


class _Patches(torch.autograd.Function):
    """The patch below each position of the kernel: [B, H, W, C] -> [B, H', W', taps * C].

    The backward pass adds the taps in place; autograd would allocate an image for each.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
        return torch.stack([x[window] for window in _windows(x.shape, kernel, stride)], dim=3).flatten(3)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.kernel, ctx.stride = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, None, None]:
        out = error.new_zeros(ctx.shape)
        taps = error.unflatten(3, (-1, ctx.shape[3]))
        for tap, window in enumerate(_windows(ctx.shape, ctx.kernel, ctx.stride)):
            out[window] += taps[:, :, :, tap]
        return out, None, None


def _windows(
    shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int]
) -> list[tuple[slice, slice, slice]]:
    """The pixels that each tap of the kernel reads, over all its positions."""
    last = [size - k for size, k in zip(shape[1:3], kernel, strict=True)]  # the last position
    return [
        (slice(None), slice(i, i + last[0] + 1, stride[0]), slice(j, j + last[1] + 1, stride[1]))
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]
