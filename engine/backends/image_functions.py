"""The kernels of ``image_kernels`` as functions that have gradients of any order, and that ``vmap`` takes.

A dimension that ``vmap`` adds becomes one of more clients.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp

from engine.backends.image_kernels import (
    Shape,
    convolve,
    input_gradient,
    normalize,
    normalize_gradient,
    weight_gradient,
)


def _merged(size: int, in_dims: Sequence[int | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Clients [V, A, ...] as [V * A, ...]."""
    return [
        (t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0)).flatten(0, 1)
        for t, dim in zip(tensors, in_dims, strict=False)
    ]


class _Bilinear(torch.autograd.Function):
    """A product of two tensors of the same clients. Its gradients are products of the other two kinds."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.shape = inputs
        ctx.save_for_backward(*tensors)

    @classmethod
    def over_clients(cls, size: int, in_dims: tuple[int | None, ...], a: Tensor, b: Tensor, shape: Shape) -> Any:
        return cls.apply(*_merged(size, in_dims, (a, b)), shape).unflatten(0, (size, -1)), 0

    @classmethod
    def over_images(cls, size: int, in_dims: tuple[int | None, ...], a: Tensor, b: Tensor, shape: Shape) -> Any:
        """With the same weights for all V, their images [V, A, B, ...] become images of one batch, [A, V * B, ...]."""
        first, second, *_ = in_dims
        if first is None or second is not None:
            return cls.over_clients(size, in_dims, a, b, shape)
        return cls.apply(a.movedim(first, 1).flatten(1, 2), b, shape).unflatten(1, (size, -1)), 1


class Convolution(_Bilinear):
    """``convolve``."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
        return convolve(x, weight, shape)

    @staticmethod
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, _ = ctx.needs_input_grad
        return (
            InputGradient.apply(error, weight, ctx.shape) if of_x else None,
            WeightGradient.apply(x, error, ctx.shape) if of_weight else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return Convolution.over_images(info.batch_size, in_dims, *inputs)


class InputGradient(_Bilinear):
    """``input_gradient``."""

    @staticmethod
    def forward(error: Tensor, weight: Tensor, shape: Shape) -> Tensor:
        return input_gradient(error, weight, shape)

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        error, weight = ctx.saved_tensors
        of_error, of_weight, _ = ctx.needs_input_grad
        return (
            Convolution.apply(x, weight, ctx.shape) if of_error else None,
            WeightGradient.apply(x, error, ctx.shape) if of_weight else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return InputGradient.over_images(info.batch_size, in_dims, *inputs)


class WeightGradient(_Bilinear):
    """``weight_gradient``."""

    @staticmethod
    def forward(x: Tensor, error: Tensor, shape: Shape) -> Tensor:
        return weight_gradient(x, error, shape)

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, error = ctx.saved_tensors
        of_x, of_error, _ = ctx.needs_input_grad
        return (
            InputGradient.apply(error, weight, ctx.shape) if of_x else None,
            Convolution.apply(x, weight, ctx.shape) if of_error else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return WeightGradient.over_clients(info.batch_size, in_dims, *inputs)


def _over_clients(
    function: type[torch.autograd.Function], size: int, in_dims: Sequence[int | None], tensors: Any, *options: Any
) -> Any:
    """What ``vmap`` asks of a function with three outputs."""
    found = function.apply(*_merged(size, in_dims, tensors), *options)
    return tuple(t.unflatten(0, (size, -1)) for t in found), (0, 0, 0)


class GroupNorm(torch.autograd.Function):
    """``normalize``."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        return normalize(x, weight, bias, groups, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        x, weight, _, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight, *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, error: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return *GroupNormGradient.apply(error, *ctx.saved_tensors, ctx.eps), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        *tensors, groups, eps = inputs
        return _over_clients(GroupNorm, info.batch_size, in_dims, tensors, groups, eps)


class GroupNormGradient(torch.autograd.Function):
    """``normalize_gradient``. Its own gradient, for products with a Hessian, is that of the formula."""

    @staticmethod
    def forward(
        error: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        return normalize_gradient(error, x, weight, mean, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        error, x, weight, mean, _, ctx.eps = inputs
        ctx.groups = mean.shape[-1]
        ctx.save_for_backward(error, x, weight)

    @staticmethod
    def backward(ctx: Any, *errors: Tensor) -> tuple[Tensor | None, ...]:
        formula: Any = partial(group_norm_gradient, groups=ctx.groups, eps=ctx.eps)
        _, backward, *_ = vjp(formula, *ctx.saved_tensors)
        return *backward(errors), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        *tensors, eps = inputs
        return _over_clients(GroupNormGradient, info.batch_size, in_dims, tensors, eps)


def group_norm_gradient(
    error: Tensor, x: Tensor, weight: Tensor, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``normalize_gradient`` as a formula that autograd can differentiate."""
    grouped = x.unflatten(-1, (groups, -1))
    over = (-4, -3, -1)  # height, width and the channels of a group
    centered = grouped - grouped.mean(over, keepdim=True)
    scale = (centered.square().mean(over, keepdim=True) + eps).rsqrt()
    normalized = centered * scale
    scaled = (error * weight[:, None, None, None]).unflatten(-1, (groups, -1))
    along = (scaled * normalized).mean(over, keepdim=True)
    of_x = scale * (scaled - scaled.mean(over, keepdim=True) - normalized * along)
    return of_x.flatten(-2), (error * normalized.flatten(-2)).sum((1, 2, 3)), error.sum((1, 2, 3))
