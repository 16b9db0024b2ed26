"""Data sets: one file each, registered in ``engine.core.registry.DATASETS``.

A data set is a frozen dataclass with ``options`` and:

    load(data_dir, rng, progress) -> Pool     ``rng`` is keyed (seed, "data"); only synthetic sets use it
    present(data_dir) -> bool                 whether ``load`` would succeed without a download
    memory(data_dir) -> int                   estimate of the peak memory of ``load`` in bytes; optional
    files                                     patterns of the files in DATA_DIR that ``load`` reads, and of folders of
                                              images, so that replaced ones are read again; optional

A partitioner (``engine.partitioners``) then splits the pool among the clients.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MAX_GENERATED = 2 * 10**8
NO_CHANNELS = "gray images need a channel axis: save x[:, None]"  # for samples with two axes
_BLOCK, _BLOCK_VALUES = 2048, 2**22  # samples, and their values, converted to double at once
Progress = Callable[[str, float], None]  # what is being done, share done (0..1)


@dataclass(frozen=True, eq=False)
class Pool:
    """All samples of a data set, before they are split among clients.

    Images are ``[M, channels, height, width]``. Pixels stay uint8; ``scale`` turns them into features.
    """

    x: np.ndarray  # [M, ...] uint8, float32 or float64, or int32 for token ids; features = x * scale
    y: np.ndarray  # [M] int64 in 0..num_classes-1
    num_classes: int
    scale: float = 1.0
    client: np.ndarray | None = None  # [M] natural client of each sample, 0..N-1
    split: np.ndarray | None = None  # [M] 0 train, 1 test: a split that comes with the data is kept
    contexts: np.ndarray | None = None  # [N] true context of each natural client
    class_names: tuple[str, ...] = ()
    common_test: tuple[np.ndarray, np.ndarray] | None = None  # official test set (x, y), x in the units of ``x``
    truth: dict[str, np.ndarray] | None = None  # synthetic sets: the true parameters
    notes: tuple[str, ...] = ()
    overlap: str = ""  # in words, where samples have parts in common: a random split trains on parts of test samples

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over values, shapes and dtypes of samples, labels, clients, split and common test set."""
        digest = hashlib.sha256()
        arrays = {name: getattr(self, name) for name in ("x", "y", "client", "split")}
        if self.common_test is not None:
            arrays |= dict(zip(("common_x", "common_y"), self.common_test, strict=True))
        for name, array in arrays.items():
            if array is not None:
                digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def standardize(x: np.ndarray, reference: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """Standardizes to (x - mean) / std, with the moments of ``reference`` over ``axis``.

    By default each feature of a table has its own moments, and all values of other data share theirs.
    """
    axis = 0 if axis is None and x.ndim == 2 else axis
    mean, std = _moments(reference, axis)
    std = np.where(std > 0, std, 1.0)  # a constant feature becomes 0, not NaN
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    centered = np.subtract(x, mean.astype(dtype), dtype=dtype)
    return np.divide(centered, std.astype(dtype), out=centered)


def _moments(x: np.ndarray, axis: int | tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over ``axis``, which includes the samples, in double, block by block."""
    low, high = (extreme(axis=axis, keepdims=True) for extreme in (x.min, x.max))
    mean = x.mean(axis=axis, dtype=np.float64, keepdims=True)
    mean = np.where(low == high, low, mean)  # exactly, so that rounding gives a constant feature no deviation
    size = max(1, min(_BLOCK, _BLOCK_VALUES * len(x) // x.size))
    blocks = (x[begin : begin + size] - mean for begin in range(0, len(x), size))
    squares = sum(np.square(block, out=block).sum(axis=axis, keepdims=True) for block in blocks)
    return mean, np.sqrt(squares * (mean.size / x.size))


def standardized_bytes(pixels: int) -> int:
    """The memory in bytes for standardizing images: the pixels, and as floats or two blocks as doubles."""
    return pixels + max(4 * pixels, 8 * min(pixels, 2 * _BLOCK_VALUES))


def generated_bytes(samples: int, dim: int, copies: int = 2) -> int:
    """The memory in bytes for ``copies`` double arrays of features, with labels and logits."""
    return samples * (8 * dim * copies + 64)


def check_generated_size(clients: int, samples: int, dim: int) -> None:
    """Limits the size of synthetic data. Raises ValueError, for the options of a data set."""
    if clients * samples * dim > MAX_GENERATED:
        raise ValueError(
            f"{clients:,} clients x {samples:,} samples x {dim:,} features exceed {MAX_GENERATED:,} values; "
            "lower one of them"
        )
