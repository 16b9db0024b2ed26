"""Feature shifts: transformations of the samples of a client.

A shift takes stored samples and their rows in the pool, and returns transformed ones of the same shape and dtype.
Integers (pixels) are rounded and clipped to their range, so the memory does not grow.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.datasets import Pool


class Shift(Protocol):
    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The client's version of samples ``x`` [n, ...], which are ``rows`` [n] of the pool."""


@dataclass(frozen=True)
class Levels:
    """The range of stored samples: 0 to 1/scale for pixels, else the range of the data."""

    lowest: float
    highest: float

    @classmethod
    def of(cls, pool: Pool) -> "Levels":
        if pool.x.dtype.kind == "f" or pool.scale == 1:
            return cls(float(pool.x.min()), float(pool.x.max()))
        return cls(0.0, min(1 / pool.scale, float(np.iinfo(pool.x.dtype).max)))

    @staticmethod
    def floats(stored: np.ndarray) -> np.ndarray:
        """The samples as floats for computing; pixels in single precision, which is exact."""
        return stored if stored.dtype.kind == "f" else stored.astype(np.float32)

    def stored(self, values: np.ndarray, like: np.ndarray) -> np.ndarray:
        """``values`` in the dtype of ``like``."""
        if like.dtype.kind == "f":
            return values.astype(like.dtype, copy=False)
        return np.rint(values).clip(self.lowest, self.highest).astype(like.dtype)


@dataclass(frozen=True)
class Rotation:
    """Rotates images [n, C, H, W] counterclockwise: exactly by quarter turns, else bilinearly on a dark background."""

    degrees: float
    levels: Levels

    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        quarters, rest = divmod(self.degrees, 90)
        if rest == 0 and (x.shape[2] == x.shape[3] or quarters % 2 == 0):
            return np.rot90(x, int(quarters), axes=(2, 3)).copy()
        from scipy import ndimage  # slow to import

        turned = ndimage.rotate(
            self.levels.floats(x), self.degrees, axes=(3, 2), reshape=False, order=1, cval=self.levels.lowest
        )
        return self.levels.stored(turned, x)


@dataclass(frozen=True)
class Noise:
    """Adds Gaussian noise, drawn once per sample: the same in every round and for every client."""

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
        """Draws from a stream per sample: its row is the upper half of the counter."""
        return np.random.Generator(np.random.Philox(key=self.key, counter=row << 128)).standard_normal(
            shape, np.float32
        )


@dataclass(frozen=True)
class Color:
    """Shifts and optionally inverts the channels of images [n, C, H, W]; ``share`` blends with the original."""

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
