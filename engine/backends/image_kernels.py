"""Convolutions and normalizations of many clients at once on a GPU, each with weights of its own, written in Triton.

Images are [A, B, H, W, C] with the channels last, the kernels of convolutions [A, KH, KW, C, O]. A program computes a
tile of one client's output, and reads the pixels that it needs where they are. Sums are in float32.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

DEPTH = 64  # products that are summed in one step


@dataclass(frozen=True)
class Shape:
    """A convolution's kernel, stride and padding, and the size of its input."""

    kernel: tuple[int, ...]  # height and width, as the others
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def out(self) -> tuple[int, int]:
        """The height and width of the output."""
        high, wide = (
            (size + 2 * pad - kernel) // stride + 1
            for size, pad, kernel, stride in zip(self.size, self.padding, self.kernel, self.stride, strict=True)
        )
        return high, wide


def convolve(x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    """[A, B, H, W, C], [A, KH, KW, C, O] -> [A, B, H', W', O]."""
    return _gathered(x, weight, shape, is_transposed=False)


def input_gradient(error: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    """The gradient at the input: [A, B, H', W', O], [A, KH, KW, C, O] -> [A, B, H, W, C]."""
    return _gathered(error, weight, shape, is_transposed=True)


def weight_gradient(x: Tensor, error: Tensor, shape: Shape) -> Tensor:
    """The gradient at the kernels: [A, B, H, W, C], [A, B, H', W', O] -> [A, KH, KW, C, O]."""
    x, error = x.contiguous(), error.contiguous()
    clients, batch, channels, outputs = x.shape[0], x.shape[1], x.shape[4], error.shape[4]
    out = x.new_empty(clients, *shape.kernel, channels, outputs)
    block_c, block_o = _block(channels), _block(outputs)
    tiles = shape.kernel[0] * shape.kernel[1] * triton.cdiv(channels, block_c) * triton.cdiv(outputs, block_o)
    _weight_kernel[(tiles, clients)](
        x,
        error,
        out,
        batch,
        *shape.size,
        channels,
        *shape.out,
        outputs,
        *shape.kernel,
        *shape.stride,
        *shape.padding,
        BLOCK_C=block_c,
        BLOCK_O=block_o,
        BLOCK_M=DEPTH,
        **_launch(block_c * block_o),
    )
    return out


def _gathered(source: Tensor, weight: Tensor, shape: Shape, is_transposed: bool) -> Tensor:
    source, weight = source.contiguous(), weight.contiguous()
    clients, batch, *_ = source.shape
    high, wide = shape.size if is_transposed else shape.out
    channels = weight.shape[3 if is_transposed else 4]
    out = source.new_empty(clients, batch, high, wide, channels)
    block_m, block_n = 128, _block(channels)
    tiles = triton.cdiv(batch * high * wide, block_m) * triton.cdiv(channels, block_n)
    _gather_kernel[(tiles, clients)](
        source,
        weight,
        out,
        batch,
        *source.shape[2:],
        high,
        wide,
        channels,
        *((1, weight.shape[4]) if is_transposed else (weight.shape[4], 1)),
        *shape.kernel,
        *shape.stride,
        *shape.padding,
        IS_TRANSPOSED=is_transposed,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=min(DEPTH, _block(source.shape[4])),
        **_launch(block_m * block_n),
    )
    return out


def _block(channels: int) -> int:
    return max(16, min(128, triton.next_power_of_2(channels)))


def _launch(tile: int) -> dict[str, Any]:
    return {"num_warps": 8 if tile >= 128 * 128 else 4, "num_stages": 3}


@triton.jit
def _gather_kernel(  # type: ignore[no-untyped-def]  # Triton would read annotations
    source,
    weight,
    out,
    batch,
    source_high,
    source_wide,
    source_channels,
    high,
    wide,
    channels,
    weight_k,
    weight_n,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr,
    PAD_W: tl.constexpr,
    IS_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Each output pixel gathers the source pixels that its taps see: forward, or backward to the input."""
    client = tl.program_id(1).to(tl.int64)
    tiles_n = tl.cdiv(channels, BLOCK_N)
    m = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    image, pixel = (m // (high * wide)).to(tl.int64), m % (high * wide)
    row, column = pixel // wide, pixel % wide
    source += (client * batch + image) * source_high * source_wide * source_channels
    weight += client * KERNEL_H * KERNEL_W * source_channels * channels
    is_row, is_column = m < batch * high * wide, n < channels
    parts = tl.cdiv(source_channels, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(KERNEL_H * KERNEL_W * parts):
        tap = step // parts
        k = (step % parts) * BLOCK_K + tl.arange(0, BLOCK_K)
        if IS_TRANSPOSED:
            y, x = row + PAD_H - tap // KERNEL_W, column + PAD_W - tap % KERNEL_W
            is_seen = is_row & (y >= 0) & (x >= 0) & (y % STRIDE_H == 0) & (x % STRIDE_W == 0)
            y, x = y // STRIDE_H, x // STRIDE_W
        else:
            y, x = row * STRIDE_H + tap // KERNEL_W - PAD_H, column * STRIDE_W + tap % KERNEL_W - PAD_W
            is_seen = is_row & (y >= 0) & (x >= 0)
        is_seen = is_seen & (y < source_high) & (x < source_wide)
        pixels = source + (y * source_wide + x) * source_channels
        is_k = k < source_channels
        values = tl.load(pixels[:, None] + k[None, :], mask=is_seen[:, None] & is_k[None, :], other=0.0)
        factors = tl.load(
            weight + tap * source_channels * channels + k[:, None] * weight_k + n[None, :] * weight_n,
            mask=is_k[:, None] & is_column[None, :],
            other=0.0,
        )
        total = tl.dot(values, factors, total, input_precision="ieee")
    places = out + (client * batch * high * wide + m)[:, None] * channels + n[None, :]
    tl.store(places, total.to(out.dtype.element_ty), mask=is_row[:, None] & is_column[None, :])


@triton.jit
def _weight_kernel(  # type: ignore[no-untyped-def]  # Triton would read annotations
    source,
    error,
    out,
    batch,
    source_high,
    source_wide,
    source_channels,
    high,
    wide,
    channels,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr,
    PAD_W: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """A tile of one tap's weights sums over all pixels of the client."""
    client = tl.program_id(1).to(tl.int64)
    tiles_c, tiles_o = tl.cdiv(source_channels, BLOCK_C), tl.cdiv(channels, BLOCK_O)
    tap, tile = tl.program_id(0) // (tiles_c * tiles_o), tl.program_id(0) % (tiles_c * tiles_o)
    c = (tile // tiles_o) * BLOCK_C + tl.arange(0, BLOCK_C)
    o = (tile % tiles_o) * BLOCK_O + tl.arange(0, BLOCK_O)
    is_c, is_o = c < source_channels, o < channels
    rows = batch * high * wide
    source += client * batch * source_high * source_wide * source_channels
    error += client * rows * channels
    total = tl.zeros((BLOCK_C, BLOCK_O), dtype=tl.float32)
    for first in range(0, rows, BLOCK_M):
        m = first + tl.arange(0, BLOCK_M)
        image, pixel = (m // (high * wide)).to(tl.int64), m % (high * wide)
        y = (pixel // wide) * STRIDE_H + tap // KERNEL_W - PAD_H
        x = (pixel % wide) * STRIDE_W + tap % KERNEL_W - PAD_W
        is_seen = (m < rows) & (y >= 0) & (x >= 0) & (y < source_high) & (x < source_wide)
        pixels = source + ((image * source_high + y) * source_wide + x) * source_channels
        values = tl.load(pixels[None, :] + c[:, None], mask=is_seen[None, :] & is_c[:, None], other=0.0)
        errors = tl.load(
            error + m.to(tl.int64)[:, None] * channels + o[None, :],
            mask=(m < rows)[:, None] & is_o[None, :],
            other=0.0,
        )
        total = tl.dot(values, errors, total, input_precision="ieee")
    out += ((client * KERNEL_H * KERNEL_W + tap) * source_channels) * channels
    tl.store(
        out + c[:, None] * channels + o[None, :], total.to(out.dtype.element_ty), mask=is_c[:, None] & is_o[None, :]
    )


def normalize(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Group normalization: [A, B, H, W, C], [A, C], [A, C] -> the shape of x, means and 1 / deviations [A, B, G]."""
    x = x.contiguous()
    clients, batch, high, wide, channels = x.shape
    out = torch.empty_like(x)
    mean, scale = (x.new_empty(clients, batch, groups, dtype=torch.float32) for _ in range(2))
    blocks, block_p = _norm_blocks(x)
    _norm_kernel[(batch, clients)](
        x,
        weight.contiguous(),
        bias.contiguous(),
        out,
        mean,
        scale,
        batch,
        high * wide,
        eps,
        CHANNELS=channels,
        GROUPS=groups,
        BLOCK_P=block_p,
        **blocks,
    )
    return out, mean, scale


def normalize_gradient(
    error: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``normalize`` at ``x``, ``weight`` and ``bias``, from its output's and its means and scales."""
    error, x = error.contiguous(), x.contiguous()
    clients, batch, high, wide, channels = x.shape
    of_x = torch.empty_like(x)
    of_weight, of_bias = (x.new_empty(clients, batch, channels, dtype=torch.float32) for _ in range(2))
    blocks, block_p = _norm_blocks(x)
    _norm_gradient_kernel[(batch, clients)](
        error,
        x,
        weight.contiguous(),
        mean,
        scale,
        of_x,
        of_weight,
        of_bias,
        batch,
        high * wide,
        CHANNELS=channels,
        GROUPS=mean.shape[2],
        BLOCK_P=block_p,
        **blocks,
    )
    return of_x, of_weight.sum(1).to(weight.dtype), of_bias.sum(1).to(weight.dtype)


def _norm_blocks(x: Tensor) -> tuple[dict[str, Any], int]:
    pixels, channels = x.shape[2] * x.shape[3], x.shape[4]
    block_p = min(triton.next_power_of_2(pixels), max(1, 8192 // channels))
    return {"num_warps": 8 if block_p * channels >= 4096 else 4}, block_p


@triton.jit
def _of_groups(values, CHANNELS: tl.constexpr, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sum over each group's channels."""
    return tl.sum(tl.reshape(values, (GROUPS, CHANNELS // GROUPS)), axis=1)


@triton.jit
def _of_channels(values, CHANNELS: tl.constexpr, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The value of each channel's group."""
    return tl.reshape(tl.broadcast_to(values[:, None], (GROUPS, CHANNELS // GROUPS)), (CHANNELS,))


@triton.jit
def _norm_kernel(  # type: ignore[no-untyped-def]  # Triton would read annotations
    x,
    weight,
    bias,
    out,
    mean,
    scale,
    batch,
    pixels,
    eps,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """One image: its means, its deviations from them, and then its values, a block of pixels at a time."""
    client, image = tl.program_id(1).to(tl.int64), tl.program_id(0)
    OWN: tl.constexpr = CHANNELS // GROUPS
    c = tl.arange(0, CHANNELS)
    number = client * batch + image
    x += number * pixels * CHANNELS
    out += number * pixels * CHANNELS
    total = tl.zeros((CHANNELS,), dtype=tl.float32)
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        values = tl.load(x + p[:, None] * CHANNELS + c[None, :], mask=(p < pixels)[:, None], other=0.0).to(tl.float32)
        total += tl.sum(values, axis=0)
    group_mean = _of_groups(total, CHANNELS, GROUPS) / (pixels * OWN)
    center = _of_channels(group_mean, CHANNELS, GROUPS)
    total = tl.zeros((CHANNELS,), dtype=tl.float32)
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        is_pixel = (p < pixels)[:, None]
        values = tl.load(x + p[:, None] * CHANNELS + c[None, :], mask=is_pixel, other=0.0).to(tl.float32)
        values = tl.where(is_pixel, values - center[None, :], 0.0)
        total += tl.sum(values * values, axis=0)
    group_scale = 1 / tl.sqrt(_of_groups(total, CHANNELS, GROUPS) / (pixels * OWN) + eps)
    g = tl.arange(0, GROUPS)
    tl.store(mean + number * GROUPS + g, group_mean)
    tl.store(scale + number * GROUPS + g, group_scale)
    factor = _of_channels(group_scale, CHANNELS, GROUPS)
    factor = factor * tl.load(weight + client * CHANNELS + c).to(tl.float32)
    shift = tl.load(bias + client * CHANNELS + c).to(tl.float32) - center * factor
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        is_pixel = (p < pixels)[:, None]
        places = p[:, None] * CHANNELS + c[None, :]
        values = tl.load(x + places, mask=is_pixel, other=0.0).to(tl.float32)
        tl.store(out + places, (values * factor[None, :] + shift[None, :]).to(out.dtype.element_ty), mask=is_pixel)


@triton.jit
def _norm_gradient_kernel(  # type: ignore[no-untyped-def]  # Triton would read annotations
    error,
    x,
    weight,
    mean,
    scale,
    of_x,
    of_weight,
    of_bias,
    batch,
    pixels,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """One image: the sums over its pixels, which are its part of the gradients of weight and bias, and then its own."""
    client, image = tl.program_id(1).to(tl.int64), tl.program_id(0)
    OWN: tl.constexpr = CHANNELS // GROUPS
    c, g = tl.arange(0, CHANNELS), tl.arange(0, GROUPS)
    number = client * batch + image
    error += number * pixels * CHANNELS
    x += number * pixels * CHANNELS
    of_x += number * pixels * CHANNELS
    center = tl.load(mean + number * GROUPS + g)
    center = _of_channels(center, CHANNELS, GROUPS)
    factor = tl.load(scale + number * GROUPS + g)
    factor = _of_channels(factor, CHANNELS, GROUPS)
    own = tl.load(weight + client * CHANNELS + c).to(tl.float32)
    errors_sum = tl.zeros((CHANNELS,), dtype=tl.float32)
    products_sum = tl.zeros((CHANNELS,), dtype=tl.float32)
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        is_pixel = (p < pixels)[:, None]
        places = p[:, None] * CHANNELS + c[None, :]
        errors = tl.load(error + places, mask=is_pixel, other=0.0).to(tl.float32)
        values = tl.load(x + places, mask=is_pixel, other=0.0).to(tl.float32)
        errors_sum += tl.sum(errors, axis=0)
        products_sum += tl.sum(errors * (values - center[None, :]) * factor[None, :], axis=0)
    tl.store(of_weight + number * CHANNELS + c, products_sum)
    tl.store(of_bias + number * CHANNELS + c, errors_sum)
    count = pixels * OWN
    level = _of_groups(errors_sum * own, CHANNELS, GROUPS) / count
    level = _of_channels(level, CHANNELS, GROUPS)
    along = _of_groups(products_sum * own, CHANNELS, GROUPS) / count
    along = _of_channels(along, CHANNELS, GROUPS)
    for first in range(0, pixels, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        is_pixel = (p < pixels)[:, None]
        places = p[:, None] * CHANNELS + c[None, :]
        errors = tl.load(error + places, mask=is_pixel, other=0.0).to(tl.float32)
        values = tl.load(x + places, mask=is_pixel, other=0.0).to(tl.float32)
        normalized = (values - center[None, :]) * factor[None, :]
        gradient = factor[None, :] * (errors * own[None, :] - level[None, :] - normalized * along[None, :])
        tl.store(of_x + places, gradient.to(of_x.dtype.element_ty), mask=is_pixel)
