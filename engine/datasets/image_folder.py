"""Reads a folder of images with one folder per class: ``folder/<class>/<any name>.png``."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from engine.datasets import Progress

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
HIDDEN = (".", "__MACOSX")  # first characters of hidden names, and the folder that macOS adds to archives
GREY_MODES = ("1", "L", "LA")
DEEP_MODES = ("I", "F")  # also I;16 and the like: Pillow cuts their values off at 255
_PATH_BYTES = 1000  # at most, per image: its path and the name of its class
BROKEN_IMAGE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)  # errors that Pillow raises


def read_image_folder(folder: Path, max_bytes: int, progress: Progress | None = None) -> tuple[np.ndarray, np.ndarray]:
    """x [n, channels, height, width] uint8, with one channel if all images are gray, and the class folder of each [n].

    Raises ValueError if the images cannot form one array.
    """
    paths = _images(folder)
    if not paths:
        raise ValueError("it has no images in class folders")
    mode, size = _common_format(paths)
    channels = 1 if mode == "L" else 3
    needed = len(paths) * channels * size[0] * size[1]
    if needed > max_bytes:
        raise ValueError(f"its images unpack to {needed:,} bytes, at most {max_bytes:,} are allowed")
    x = np.empty((len(paths), channels, size[1], size[0]), np.uint8)
    for i, path in enumerate(paths):
        x[i] = pixels(path, f"{path.parent.name}/{path.name}", mode)
        if progress is not None and i % 100 == 0:
            progress("Reading images", i / len(paths))
    return x, np.array([path.parent.name for path in paths])


def image_folder_bytes(folder: Path) -> int:
    """The memory for reading, in bytes, as if all images had the size of the first and were in color."""
    paths = _images(folder)
    _, (width, height) = _common_format(paths[:1]) if paths else ("L", (0, 0))
    return (len(paths) + 2) * (3 * width * height + _PATH_BYTES)


def pixels(file: Path | io.BytesIO, name: str, mode: str) -> np.ndarray:
    """[channels, height, width] uint8 in ``mode`` L or RGB. Raises ValueError with the image's ``name``."""
    with _opened(file, name) as image:
        found = np.asarray(image.convert(mode))
    return found[None] if mode == "L" else found.transpose(2, 0, 1)


def _images(folder: Path) -> list[Path]:
    """The images in class folders, without files and folders that systems and notebooks add."""
    return [
        path
        for path in sorted(folder.glob("*/*"))
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(HIDDEN) for part in (path.parent.name, path.name))
    ]


def _common_format(paths: Sequence[Path]) -> tuple[str, tuple[int, int]]:
    """The mode and the (width, height) shared by all images."""
    mode, first = "L", None
    for path in paths:
        name = f"{path.parent.name}/{path.name}"
        if not path.is_file():  # opening a pipe would block
            raise ValueError(f"{name} is not a regular file")
        with _opened(path, name) as image:  # reads the header only
            size, is_grey = image.size, image.mode in GREY_MODES
        first = first or size
        if size != first:
            raise ValueError(
                f"{name} has {size[0]} x {size[1]} pixels, others {first[0]} x {first[1]}; "
                "resize all images to one size"
            )
        mode = mode if is_grey else "RGB"
    assert first is not None  # paths is not empty
    return mode, first


@contextmanager
def _opened(file: Path | io.BytesIO, name: str) -> Iterator[Image.Image]:
    """An image whose pixels fit into 8 bits per channel. Raises ValueError with its ``name``."""
    try:
        with Image.open(file) as image:
            if image.mode.partition(";")[0] not in DEEP_MODES:
                yield image
                return
    except BROKEN_IMAGE as error:
        raise ValueError(f"{name} is not a readable image: {error}") from error
    raise ValueError(f"{name} has 16-bit or floating-point pixels; save it with 8 bits per channel, or use an NPZ file")
