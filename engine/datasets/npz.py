"""Reads untrusted NPZ files: limited in size and never unpickled."""

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

MAX_BYTES = 4 << 30  # unpacked
_BROKEN_HEADER = (TypeError, LookupError, SyntaxError, tokenize.TokenError)  # raised by numpy if it cannot parse one
# Errors that zipfile and numpy raise for files that are truncated, encrypted, pickled, damaged or of false sizes.
BROKEN_ARCHIVE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    OverflowError,
    RuntimeError,
    *_BROKEN_HEADER,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def read_npz(path: Path, names: Iterable[str], max_bytes: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """The arrays ``names`` that the file contains. Raises ValueError with the reason."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max_bytes:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, at most {max_bytes:,} are allowed")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in names if name in arrays.files}
    except _BROKEN_HEADER as error:
        raise ValueError("the header of an array is damaged; write the file again with numpy.savez") from error
    except BROKEN_ARCHIVE as error:
        raise ValueError(str(error)) from error
    if strange := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
        raise ValueError(f"its member {strange[0]} is not an array; write it with numpy.savez")
    return found


def npz_bytes(path: Path) -> int:
    """The memory for reading, in bytes: the arrays and a copy of them as floats."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size + _converted_bytes(archive, member) for member in archive.infolist())


def _converted_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """The size after conversion: up to 8 bytes per value for numbers, otherwise unchanged."""
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
        except BROKEN_ARCHIVE:
            return member.file_size
    return 8 * math.prod(shape) if dtype.kind in "buif" else member.file_size


def read_arrays(path: Path, shapes: dict[str, tuple[int | None, ...]]) -> dict[str, np.ndarray]:
    """All arrays of ``shapes``; None is any length but 0. Raises ValueError with the reason."""
    arrays = read_npz(path, shapes)
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"array {name} is missing, it has only {', '.join(arrays) or 'unknown ones'}")
        if not _fits(arrays[name].shape, shape):
            expected = ", ".join("n" if length is None else str(length) for length in shape)
            raise ValueError(f"{name} has shape {list(arrays[name].shape)}, must be [{expected}]")
    return arrays


def labels(values: np.ndarray, num_samples: int, num_classes: int, name: str = "y") -> np.ndarray:
    """Labels [M] int64 in 0..num_classes-1. Raises ValueError with the reason."""
    if values.shape != (num_samples,):
        raise ValueError(f"{name} has shape {list(values.shape)} for {num_samples} samples")
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= num_classes:
        raise ValueError(f"{name} has values other than the whole numbers 0 to {num_classes - 1}")
    return values.astype(np.int64)


def images_and_labels(
    path: Path, x: str, y: str, shape: tuple[int, ...], num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The images ``x`` as [M, channels, H, W] uint8, and their labels ``y`` [M] int64.

    ``shape`` is that of a stored image, [H, W] or [H, W, channels]. Raises ValueError with the reason.
    """
    arrays = read_arrays(path, {x: (None, *shape), y: (None,)})
    if arrays[x].dtype != np.uint8:
        raise ValueError(f"{x} has dtype {arrays[x].dtype}, not uint8")
    images = arrays[x][:, None] if len(shape) == 2 else arrays[x].transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images), labels(arrays[y], len(images), num_classes, y)


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        length > 0 if want is None else length == want for length, want in zip(shape, expected, strict=True)
    )
