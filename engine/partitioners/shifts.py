"""Feature shifts: what happens to the samples of one client before anybody sees them.

A shift is called with samples as the pool stores them and their rows in the pool, and gives new ones of the same shape
and dtype. Whole numbers (pixels) are rounded and stay in their range, so that the data keep their size in memory.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import ndimage

from engine.datasets import Pool


class Shift(Protocol):
    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Samples ``x`` [n, ...], which are ``rows`` [n] of the pool, as the client has them."""


@dataclass(frozen=True)
class Levels:
    """The values that stored samples take: 0 to 1/scale for pixels, those that occur for anything taken as it is."""

    lowest: float
    highest: float

    @classmethod
    def of(cls, pool: Pool) -> "Levels":
        if pool.x.dtype.kind == "f" or pool.scale == 1:
            return cls(float(pool.x.min()), float(pool.x.max()))
        return cls(0.0, min(1 / pool.scale, float(np.iinfo(pool.x.dtype).max)))

    @staticmethod
    def floats(stored: np.ndarray) -> np.ndarray:
        """To compute with: pixels in single precision, which holds them exactly."""
        return stored if stored.dtype.kind == "f" else stored.astype(np.float32)

    def stored(self, values: np.ndarray, like: np.ndarray) -> np.ndarray:
        """``values`` in the dtype of ``like``."""
        if like.dtype.kind == "f":
            return values.astype(like.dtype, copy=False)
        return np.rint(values).clip(self.lowest, self.highest).astype(like.dtype)


@dataclass(frozen=True)
class Rotation:
    """Images [n, C, H, W] turned counterclockwise: exact by quarter turns, else bilinear with a dark ground."""

    degrees: float
    levels: Levels

    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        quarters, rest = divmod(self.degrees, 90)
        if rest == 0 and (x.shape[2] == x.shape[3] or quarters % 2 == 0):
            return np.rot90(x, int(quarters), axes=(2, 3)).copy()
        turned = ndimage.rotate(
            self.levels.floats(x), self.degrees, axes=(3, 2), reshape=False, order=1, cval=self.levels.lowest
        )
        return self.levels.stored(turned, x)


@dataclass(frozen=True)
class Noise:
    """Gaussian noise, drawn once for each sample: the same in every round, and whoever holds the sample."""

    std: float  # in the units of ``x``
    key: int
    levels: Levels

    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self.std == 0 or not len(x):
            return x
        noisy = self.levels.floats(x).copy()
        for sample, row in zip(noisy, rows.tolist(), strict=True):
            sample += self.std * self._of_sample(row, sample.shape)
        return self.levels.stored(noisy, x)

    def _of_sample(self, row: int, shape: tuple[int, ...]) -> np.ndarray:
        """From a stream of the sample's own: the counter's upper half is its row."""
        return np.random.Generator(np.random.Philox(key=self.key, counter=row << 128)).standard_normal(
            shape, np.float32
        )


@dataclass(frozen=True)
class Colour:
    """Images [n, C, H, W] whose channels are passed on and, perhaps, inverted; mixed with the original by ``share``."""

    channel_step: int
    is_inverted: bool
    share: float
    levels: Levels

    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        original = self.levels.floats(x)
        look = np.roll(original, self.channel_step, axis=1)
        if self.is_inverted:
            look = self.levels.lowest + self.levels.highest - look
        return self.levels.stored(original + self.share * (look - original), x)
