"""Data sets of several domains: the same classes from different sources. The natural clients are the domains."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from PIL import Image
from pydantic import Field

from engine.core.registry import Options
from engine.core.streams import numpy_stream
from engine.datasets import Pool, standardize
from engine.datasets.official import Part


class DomainOptions(Options):
    """Options of image data sets of several domains."""

    advanced: ClassVar[tuple[str, ...]] = ("standardize",)

    standardize: bool = Field(
        False,
        title="Standardize",
        description="Subtract the mean of all pixels and divide by their standard deviation, both over the whole pool, "
        "including later test samples.",
    )


def counts(sizes: Sequence[int], wanted: int | Literal["equal", "all"]) -> list[int]:
    """The number of samples to use of domains with ``sizes`` samples; ``equal``: the size of the smallest."""
    most = {"equal": min(sizes), "all": max(sizes)}[wanted] if isinstance(wanted, str) else wanted
    return [min(most, size) for size in sizes]


def drawn(domain: str, among: np.ndarray, count: int) -> np.ndarray:
    """``count`` of the indices ``among``, ascending. The same for all seeds, since they share one pool."""
    return np.sort(numpy_stream(0, "data", domain).choice(among, count, replace=False))


def domain_pool(
    domains: Mapping[str, Part],
    class_names: tuple[str, ...],
    *,
    scale: float = 1.0,
    standardized: bool = False,
    notes: tuple[str, ...] = (),
) -> Pool:
    """The samples of all domains; natural client i is the i-th domain."""
    x, y = (np.concatenate([getattr(part, name) for part in domains.values()]) for name in ("x", "y"))
    names = ", ".join(f"{i} {name}" for i, name in enumerate(domains))
    return Pool(
        standardize(x, x) if standardized else x,
        y,
        num_classes=len(class_names),
        scale=1.0 if standardized else scale,
        client=np.repeat(np.arange(len(domains)), [len(part.y) for part in domains.values()]),
        class_names=class_names,
        notes=(f"the domains are {names}", *notes),
    )


def at_size(images: np.ndarray, side: int, method: Image.Resampling = Image.Resampling.BILINEAR) -> np.ndarray:
    """Resizes [M, channels, H, W] uint8 to [M, channels, side, side]; unchanged if they have that size."""
    if images.shape[2:] == (side, side):
        return images
    resized = np.empty((*images.shape[:2], side, side), np.uint8)
    for image, target in zip(images, resized, strict=True):
        for channel, plane in zip(image, target, strict=True):
            plane[:] = np.asarray(Image.fromarray(channel).resize((side, side), method))
    return resized


def in_color(images: np.ndarray) -> np.ndarray:
    """[M, 3, H, W]: gray images get three equal channels."""
    return np.repeat(images, 3, axis=1) if images.shape[1] == 1 else images


def in_gray(images: np.ndarray) -> np.ndarray:
    """[M, 1, H, W]: the luminance of color images, 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded."""
    if images.shape[1] == 1:
        return images
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    gray = np.empty((len(images), 1, *images.shape[2:]), np.uint8)
    for image, target in zip(images, gray, strict=True):
        target[0] = np.rint(np.tensordot(weights, image, 1))
    return gray
