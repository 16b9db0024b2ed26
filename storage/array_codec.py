"""Arrays as bytes: little-endian and C-ordered, with separate dtype and shape."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from storage.errors import StorageError


class Packed(NamedTuple):
    """The columns that store an array."""

    dtype: str
    shape: str
    data: bytes


def pack(array: np.ndarray) -> Packed:
    """Encodes an array of any shape. Booleans, integers and floats keep their dtype; NaN keep their bits."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"cannot store an array of {array.dtype}; give numbers (bool, int, float32 or float64)")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return Packed(little.dtype.str, ",".join(map(str, array.shape)), little.tobytes())


def unpack(dtype: str, shape: str, data: bytes) -> np.ndarray:
    """Decodes an array, as a read-only view of the bytes."""
    return np.frombuffer(data, dtype).reshape(_sizes(shape))


def unpack_stack(name: str, rows: Sequence[tuple[str, str, bytes]]) -> np.ndarray:
    """Decodes rows of one dtype and shape into one array [R, ...]. Raises StorageError if they differ."""
    layouts = {(dtype, shape) for dtype, shape, _ in rows}
    if len(layouts) > 1:
        raise StorageError(f"{name!r} changes its shape between rounds ({_layouts_text(layouts)}); read single rounds")
    ((dtype, shape),) = layouts
    return np.frombuffer(b"".join(data for _, _, data in rows), dtype).reshape(len(rows), *_sizes(shape))


def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.split(",") if size)


def _layouts_text(layouts: set[tuple[str, str]]) -> str:
    return ", ".join(f"{dtype}[{shape}]" for dtype, shape in sorted(layouts)[:4])
