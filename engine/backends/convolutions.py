"""Convolutions of many clients as matrix products, for a GPU.

With a weight for each client, PyTorch computes one grouped convolution, for which cuDNN has no fast kernels, and none
that use TF32. Here the patches of the images become rows of a matrix, and one batched product serves all clients. That
takes more memory: up to k^2 times the layer's input for a kernel of k x k, kept until the backward pass.
"""

import copy
from dataclasses import replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.models import Model

MAX_KERNEL = 9  # taps; measured: 3x3 is faster than a grouped convolution, 5x5 is not


def as_products(model: Model) -> Model:
    """The same model, whose small convolutions are matrix products. Its parameters have the same names and shapes."""
    if not any(map(_is_small, model.module.modules())):
        return model
    module = copy.deepcopy(model.module)
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if _is_small(layer):
                setattr(parent, name, _Convolution(layer))
    return replace(model, module=module)


def _is_small(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    return (
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size[0] * layer.kernel_size[1] <= MAX_KERNEL
        and layer.groups == 1
        and set(layer.dilation) == {1}
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


class _Convolution(nn.Module):
    """Computes ``layer`` as a matrix product. Its parameters give names and shapes; a call passes the values."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        assert not isinstance(layer.padding, str)
        self.kernel, self.stride, self.padding = layer.kernel_size, layer.stride, layer.padding

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, O, H', W'], channels last in memory."""
        high, wide = self.padding
        padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, wide, wide, high, high))
        patches = _Patches.apply(padded, self.kernel, self.stride)
        weight = self.weight.permute(2, 3, 1, 0).flatten(0, 2)
        out = patches.flatten(0, 2) @ weight
        if self.bias is not None:
            out = out + self.bias
        return out.view(*patches.shape[:3], -1).permute(0, 3, 1, 2)


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
