"""Shared by the image models: the shapes of samples that they accept."""

from torch import nn

from engine.core.errors import Unsupported


def image_shape(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of [H, W] or [C, H, W] samples. Raises Unsupported for other shapes."""
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    raise Unsupported(
        f"model {model} requires images [H, W] or [C, H, W], not samples of shape {list(shape)}; "
        "use mlr or dnn, or a data set of images such as mnist or cifar10"
    )


def with_channels(shape: tuple[int, ...]) -> list[nn.Module]:
    """A layer that adds the channel axis to [B, H, W] samples; empty for samples with channels."""
    return [nn.Unflatten(1, (1, shape[0]))] if len(shape) == 2 else []
