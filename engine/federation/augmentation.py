"""Augmentation of training batches; validation and test samples are never augmented.

The draws of a batch are keyed (seed, "augmentation", stream, client, round, step, index in the batch), where steps
run through the local epochs like the batches. So the k-th batch of a client is the same for every method and backend,
independent of call order and chunk size.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from engine.core.errors import Unsupported
from engine.core.streams import integers, key
from engine.datasets import NO_CHANNELS

_PADDING = 4
_SHIFTS = 2 * _PADDING + 1  # crops along each side


@dataclass(frozen=True)
class CropFlip:
    """A random crop after zero padding by 4 pixels, and a random horizontal flip, for one local training.

    The standard augmentation for residual networks on CIFAR (He et al. 2016, section 4.2).
    """

    seed: int
    stream: str
    round: int
    clients: Int[Tensor, "S"]
    begin: int = 0  # the local step that the caller counts as 0

    def part(self, start: int, stop: int) -> "CropFlip":
        return replace(self, clients=self.clients[start:stop])

    def __call__(self, x: Float[Tensor, "A B C H W"], step: int) -> Float[Tensor, "A B C H W"]:
        """Augments the batch of a step, for the clients that still train."""
        stream = key(self.seed, "augmentation", self.stream, self.round, self.begin + step)
        drawn = integers(stream, self.clients[: len(x)], x.shape[1])
        return crop_flip(x.flatten(0, 1), drawn.flatten()).view_as(x)


def crop_flip(x: Float[Tensor, "M C H W"], drawn: Int[Tensor, "M"]) -> Float[Tensor, "M C H W"]:
    """Augments images; ``drawn`` selects one of 9 x 9 crops per image, and whether to flip it."""
    height, width = x.shape[2:]
    padded = F.pad(x, [_PADDING] * 4)
    down, right, mirrored = drawn % _SHIFTS, drawn // _SHIFTS % _SHIFTS, drawn // _SHIFTS**2 % 2
    columns = torch.arange(width, device=x.device).expand(len(x), width)
    columns = torch.where(mirrored[:, None] == 1, columns.flip(1), columns) + right[:, None]
    rows = torch.arange(height, device=x.device) + down[:, None]
    place = rows[:, :, None] * padded.shape[3] + columns[:, None]
    return padded.flatten(2).gather(2, place.flatten(1)[:, None].expand(-1, x.shape[1], -1)).view_as(x)


def require_images(augmentation: str, input_shape: tuple[int, ...]) -> None:
    """Raises Unsupported unless samples are images [C, H, W]."""
    if augmentation == "crop_flip" and len(input_shape) != 3:
        raise Unsupported(
            f"training.augmentation: 'crop_flip' requires images [C, H, W], not samples of shape "
            f"{list(input_shape)}; use augmentation: none, or a data set of images such as cifar10"
            + (f"; {NO_CHANNELS}" if len(input_shape) == 2 else "")
        )
