"""Reads MNIST and its drop-in replacements: four IDX files, checked, downloaded when they are absent.

The files lie where torchvision puts them, ``DATA_DIR/<folder>/raw``, unpacked or as ``.gz``. Their content is known, so
one checksum of the unpacked bytes tells whether a file is whole, wherever it came from.
"""

import gzip
import hashlib
import http.client
import os
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.datasets import Pool, Progress, standardize
from engine.errors import DataUnavailable
from engine.registry import Options

TIMEOUT_S = 10  # of one network operation
CHUNK_BYTES = 1 << 16
LABELS_HEADER, IMAGES_HEADER = 8, 16  # bytes before the values


class ImageOptions(Options):
    """Options of image sets with an official test set."""

    pool: Literal["all", "train"] = Field(
        "all", title="Pool", description="all: official training and test images merged; train: training images only.")
    standardize: bool = Field(
        False, title="Standardize",
        description="Subtract the mean of all training pixels and divide by their standard deviation.")
    common_test: bool = Field(
        False, title="Common test set",
        description="Also measure every model on the official test set; needs pool=train.")

    @model_validator(mode="after")
    def _test_images_are_not_trained_on(self) -> Self:
        if self.common_test and self.pool != "train":
            raise ValueError(f"common_test=true needs pool=train, and pool={self.pool}: clients would train on the "
                             "common test images")
        return self


@dataclass(frozen=True)
class IdxFiles:
    """Where the four files of one data set belong, what they must contain, and who knows where to get them."""

    folder: str  # below DATA_DIR; also the name of torchvision's class, which knows the mirrors
    md5: dict[str, str]  # of the unpacked files

    def path(self, name: str, data_dir: Path) -> Path:
        return data_dir / self.folder / "raw" / name

    def present(self, data_dir: Path) -> bool:
        return all(_existing(self.path(name, data_dir)) for name in self.md5)

    def load(self, data_dir: Path, options: ImageOptions, class_names: tuple[str, ...],
             progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable where a file is corrupt, or absent and not to be had."""
        content = {name: self._read(name, data_dir, progress) for name in self.md5}
        x_train, x_test = (images(content[f"{part}-images-idx3-ubyte"]) for part in ("train", "t10k"))
        y_train, y_test = (labels(content[f"{part}-labels-idx1-ubyte"]) for part in ("train", "t10k"))
        scale = 1 / 255
        if options.standardize:
            x_train, x_test, scale = standardize(x_train, x_train), standardize(x_test, x_train), 1.0
        if options.pool == "all":
            x_train, y_train = np.concatenate([x_train, x_test]), np.concatenate([y_train, y_test])
        return Pool(x_train, y_train, num_classes=10, scale=scale, class_names=class_names,
                    common_test=(x_test, y_test) if options.common_test else None)

    def _read(self, name: str, data_dir: Path, progress: Progress | None) -> bytes:
        path = _existing(self.path(name, data_dir))
        if path is None:
            return self._download(name, data_dir, progress)
        try:
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, zlib.error) as error:
            raise DataUnavailable(f"cannot read {path}: {error}; delete it to download it again") from error
        if self._checksum(content) != self.md5[name]:
            raise DataUnavailable(f"{path} is corrupt or not the official file (md5 {self._checksum(content)}, "
                                  f"expected {self.md5[name]}); delete it to download it again")
        return content

    def _download(self, name: str, data_dir: Path, progress: Progress | None) -> bytes:
        path, reasons = self.path(name, data_dir), []
        for mirror in _mirrors(self.folder):
            try:
                content = gzip.decompress(b"".join(_fetch(f"{mirror}{name}.gz", name, progress)))
                if self._checksum(content) == self.md5[name]:
                    _save(path, content)
                    return content
                reasons.append(f"{mirror}: wrong checksum")
            except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as error:
                reasons.append(f"{mirror}: {error}")
        raise DataUnavailable(
            f"there is no {path}, and it could not be downloaded ({'; '.join(reasons)}); put {', '.join(self.md5)} "
            f"into {path.parent}, unpacked or as .gz, or set DATA_DIR to the folder that holds {self.folder}/raw")

    @staticmethod
    def _checksum(content: bytes) -> str:
        return hashlib.md5(content, usedforsecurity=False).hexdigest()


def images(content: bytes) -> np.ndarray:
    """[M, 1, 28, 28] uint8"""
    return np.frombuffer(content, np.uint8, offset=IMAGES_HEADER).reshape(-1, 1, 28, 28).copy()  # writable


def labels(content: bytes) -> np.ndarray:
    """[M] int64"""
    return np.frombuffer(content, np.uint8, offset=LABELS_HEADER).astype(np.int64)


def _existing(path: Path) -> Path | None:
    packed = path.with_name(f"{path.name}.gz")
    return next((file for file in (path, packed) if os.path.isfile(file)), None)


def _mirrors(torchvision_class: str) -> list[str]:
    from torchvision import datasets  # slow to import, and needed for downloads only

    mirrors: list[str] = getattr(datasets, torchvision_class).mirrors
    return mirrors


def _fetch(url: str, name: str, progress: Progress | None) -> Iterator[bytes]:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # an address of torchvision's
        total, done = response.length or 0, 0
        while chunk := response.read(CHUNK_BYTES):
            yield chunk
            done += len(chunk)
            if progress is not None and total:
                progress(f"Downloading {name}", done / total)


def _save(path: Path, content: bytes) -> None:
    """Whole or not at all, also when two runs download at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(content)
    partial.replace(path)
