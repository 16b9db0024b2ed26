"""Tiny ImageNet: 110,000 color images of 200 classes, 64 x 64 pixels.

Read from ``DATA_DIR/tiny-imagenet-200`` or from ``tiny-imagenet-200.zip`` as published, with as many classes
and images as it contains:

    train/<class>/images/*.JPEG          the official training images
    val/images/*.JPEG                    the official test images (those in ``test`` have no labels)
    val/val_annotations.txt              image, tab, class, ... one per line
    words.txt                            class, tab, name of the class; optional
"""

import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.image_folder import pixels
from engine.datasets.official import OfficialOptions, Part, official_bytes, official_pool

SIDE = 64
FOLDER = "tiny-imagenet-200"
ANNOTATIONS, WORDS = "val/val_annotations.txt", "words.txt"
UNREADABLE = (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)  # RuntimeError: encrypted
_TRAIN_IMAGE = re.compile(r"train/([^/]+)/images/[^/]+\.jpe?g", re.IGNORECASE)


@dataclass(frozen=True)
class Release:
    """A release, as a folder or an archive."""

    place: Path
    names: tuple[str, ...]  # of the files in FOLDER
    content: Callable[[str], bytes]

    def read(self, name: str) -> bytes:
        try:
            return self.content(name)
        except UNREADABLE as error:
            raise self.unusable(f"{name} cannot be read ({error})") from error

    def lines(self, name: str) -> list[list[str]]:
        """The tab-separated fields of each non-empty line."""
        text = self.read(name).decode("utf-8", errors="replace")
        return [line.split("\t") for line in text.splitlines() if line.strip()]

    def unusable(self, reason: str) -> DataUnavailable:
        return DataUnavailable(
            f"{self.place}: {reason}. Expected: train/<class>/images, val/images and {ANNOTATIONS} "
            "as in the authors' archive; unpack or download it again"
        )


@DATASETS.register(
    "tiny_imagenet",
    title="Tiny ImageNet",
    paper="Le, Yang. Tiny ImageNet Visual Recognition Challenge. Stanford CS 231N, 2015.",
)
@dataclass(frozen=True)
class TinyImagenet:
    options: OfficialOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}.zip", f"{FOLDER}/*", f"{FOLDER}/val/*", f"{FOLDER}/train/*/images")

    def present(self, data_dir: Path) -> bool:
        return os.path.isdir(data_dir / FOLDER) or os.path.isfile(_packed(data_dir))

    def memory(self, data_dir: Path) -> int:
        return official_bytes(110_000 * 3 * 64 * 64, self.options)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        with _release(data_dir) as release:
            found = [(name, match[1]) for name in release.names if (match := _TRAIN_IMAGE.fullmatch(name))]
            classes = sorted({label for _, label in found})
            if len(classes) < 2:
                raise release.unusable(f"it has {len(found)} training images of {len(classes)} classes")
            train = _part(release, found, classes, progress)
            test = _part(release, _test_images(release, classes), classes, progress)
            return official_pool(train, test, self.options, _class_names(release, classes), scale=1 / 255)


@contextmanager
def _release(data_dir: Path) -> Iterator[Release]:
    folder, packed = data_dir / FOLDER, _packed(data_dir)
    if os.path.isdir(folder):
        paths = [path for pattern in ("*.txt", "val/*.txt", "train/*/images/*") for path in folder.glob(pattern)]
        names = sorted(path.relative_to(folder).as_posix() for path in paths)
        yield Release(folder, tuple(names), lambda name: (folder / name).read_bytes())
    elif os.path.isfile(packed):
        try:
            archive = zipfile.ZipFile(packed)
        except UNREADABLE as error:
            raise DataUnavailable(f"{packed}: cannot be read ({error}); download it again") from error
        with archive:
            names = sorted(name.removeprefix(f"{FOLDER}/") for name in archive.namelist())
            yield Release(packed, tuple(names), lambda name: archive.read(f"{FOLDER}/{name}"))
    else:
        raise DataUnavailable(
            f"there is no {folder}, nor {packed}; download tiny-imagenet-200.zip from its authors' "
            f"page and put it into {data_dir}, packed or unpacked, or set DATA_DIR"
        )


def _packed(data_dir: Path) -> Path:
    return data_dir / f"{FOLDER}.zip"


def _test_images(release: Release, classes: Sequence[str]) -> list[tuple[str, str]]:
    """(file, class) of each image."""
    lines = release.lines(ANNOTATIONS)
    for number, line in enumerate(lines, start=1):
        if len(line) < 2 or line[1] not in classes:
            raise release.unusable(f"{ANNOTATIONS}, line {number}: must have an image and a class of train")
    if not lines:
        raise release.unusable(f"{ANNOTATIONS} names no images")
    return [(f"val/images/{line[0]}", line[1]) for line in lines]


def _part(
    release: Release, images: Sequence[tuple[str, str]], classes: Sequence[str], progress: Progress | None
) -> Part:
    x = np.empty((len(images), 3, SIDE, SIDE), np.uint8)
    for i, (name, _) in enumerate(images):
        x[i] = _image(release, name)
        if progress is not None and i % 100 == 0:
            progress("Reading images", i / len(images))
    number = {label: i for i, label in enumerate(classes)}
    return Part(x, np.array([number[label] for _, label in images], np.int64))


def _image(release: Release, name: str) -> np.ndarray:
    """[3, 64, 64] uint8; the few gray images become color images."""
    try:
        found = pixels(io.BytesIO(release.read(name)), name, "RGB")
    except ValueError as error:
        raise release.unusable(str(error)) from error
    if found.shape[1:] != (SIDE, SIDE):
        raise release.unusable(f"{name} has {found.shape[2]} x {found.shape[1]} pixels, not {SIDE} x {SIDE}")
    return found


def _class_names(release: Release, classes: Sequence[str]) -> tuple[str, ...]:
    """The first word of each class, all words if two classes share it, its id if it has none."""
    words = {line[0]: line[-1] for line in release.lines(WORDS)} if WORDS in release.names else {}
    first = [words.get(label, label).split(",")[0].strip() for label in classes]
    return tuple(name if first.count(name) == 1 else words[label] for name, label in zip(first, classes, strict=True))
