"""Arrays as bytes: little-endian and C-ordered, with separate dtype and shape.

Long arrays that are NaN for most clients, because a sample is evaluated or trains, have the dtype ``sparse <f4``: the
indices of the known values as int32, then these.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from storage.errors import StorageError

SPARSE = "sparse "
_LONG, _FEW = 10_000, 0.25  # values from which, and share of known ones up to which an array is sparse


class Packed(NamedTuple):
    """The columns that store an array."""

    dtype: str
    shape: str
    data: bytes


def pack(array: np.ndarray) -> Packed:
    """Encodes an array of any shape. Booleans, integers and floats keep their dtype; NaN of short arrays their bits."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"cannot store an array of {array.dtype}; give numbers (bool, int, float32 or float64)")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    shape = ",".join(map(str, array.shape))
    if array.ndim == 1 and array.dtype.kind == "f" and array.size >= _LONG:
        known = np.flatnonzero(~np.isnan(little))
        if known.size <= _FEW * array.size:
            return Packed(SPARSE + little.dtype.str, shape, known.astype("<i4").tobytes() + little[known].tobytes())
    return Packed(little.dtype.str, shape, little.tobytes())


def unpack(dtype: str, shape: str, data: bytes) -> np.ndarray:
    """Decodes an array, as a read-only view of the bytes unless it is sparse."""
    if not dtype.startswith(SPARSE):
        return np.frombuffer(data, dtype).reshape(_sizes(shape))
    kind = np.dtype(dtype.removeprefix(SPARSE))
    count = len(data) // (4 + kind.itemsize)
    array = np.full(_sizes(shape), np.nan, kind)
    array[np.frombuffer(data, "<i4", count)] = np.frombuffer(data, kind, count, 4 * count)
    return array


def unpack_stack(name: str, rows: Sequence[tuple[str, str, bytes]]) -> np.ndarray:
    """Decodes rows of one dtype and shape into one array [R, ...]. Raises StorageError if they differ."""
    layouts = {(dtype.removeprefix(SPARSE), shape) for dtype, shape, _ in rows}
    if len(layouts) > 1:
        raise StorageError(f"{name!r} changes its shape between rounds ({_layouts_text(layouts)}); read single rounds")
    if any(dtype.startswith(SPARSE) for dtype, _, _ in rows):
        return np.stack([unpack(*row) for row in rows])
    ((dtype, shape),) = layouts
    return np.frombuffer(b"".join(data for _, _, data in rows), dtype).reshape(len(rows), *_sizes(shape))


def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.split(",") if size)


def _layouts_text(layouts: set[tuple[str, str]]) -> str:
    return ", ".join(f"{dtype}[{shape}]" for dtype, shape in sorted(layouts)[:4])
