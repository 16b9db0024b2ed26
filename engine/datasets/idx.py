"""Reads MNIST and its drop-in replacements: four IDX files, verified, and downloaded if missing.

The files are where torchvision puts them, ``DATA_DIR/<folder>/raw``, unpacked or as ``.gz``. One checksum of the
unpacked bytes verifies a file, wherever it came from.
"""

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.core.errors import DataUnavailable
from engine.datasets import Pool, Progress
from engine.datasets.download import FAILED, fetch, md5_of, save
from engine.datasets.official import OfficialOptions, Part, official_pool

LABELS_HEADER, IMAGES_HEADER = 8, 16  # bytes before the values


@dataclass(frozen=True)
class IdxFiles:
    """The files of one data set, their checksums, and torchvision's class for downloads."""

    folder: str  # in DATA_DIR; also the name of torchvision's class, which has the mirrors
    md5: dict[str, str]  # of the unpacked files

    @property
    def patterns(self) -> tuple[str, ...]:
        return (f"{self.folder}/raw/*",)

    def path(self, name: str, data_dir: Path) -> Path:
        return data_dir / self.folder / "raw" / name

    def present(self, data_dir: Path) -> bool:
        return all(_existing(self.path(name, data_dir)) for name in self.md5)

    def load(
        self, data_dir: Path, options: OfficialOptions, class_names: tuple[str, ...], progress: Progress | None = None
    ) -> Pool:
        """Raises DataUnavailable if a file is corrupt, or missing and not downloadable."""
        train, test = self.parts(data_dir, progress)
        return official_pool(train, test, options, class_names, scale=1 / 255)

    def parts(self, data_dir: Path, progress: Progress | None = None) -> tuple[Part, Part]:
        """The training and the test part, [M, 1, 28, 28] uint8. Raises DataUnavailable like ``load``."""
        content = {name: self._read(name, data_dir, progress) for name in self.md5}
        train, test = (
            Part(images(content[f"{part}-images-idx3-ubyte"]), labels(content[f"{part}-labels-idx1-ubyte"]))
            for part in ("train", "t10k")
        )
        return train, test

    def _read(self, name: str, data_dir: Path, progress: Progress | None) -> bytes:
        path = _existing(self.path(name, data_dir))
        if path is None:
            return self._download(name, data_dir, progress)
        try:
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, zlib.error) as error:
            raise DataUnavailable(f"cannot read {path}: {error}; delete it to download it again") from error
        if md5_of(content) != self.md5[name]:
            raise DataUnavailable(
                f"{path} is corrupt or not the official file (md5 {md5_of(content)}, "
                f"expected {self.md5[name]}); delete it to download it again"
            )
        return content

    def _download(self, name: str, data_dir: Path, progress: Progress | None) -> bytes:
        path, reasons = self.path(name, data_dir), []
        for mirror in _mirrors(self.folder):
            try:
                content = gzip.decompress(fetch(f"{mirror}{name}.gz", name, progress))
                if md5_of(content) == self.md5[name]:
                    save(path, content)
                    return content
                reasons.append(f"{mirror}: wrong checksum")
            except (*FAILED, EOFError, ValueError, zlib.error) as error:
                reasons.append(f"{mirror}: {error}")
        raise DataUnavailable(
            f"there is no {path}, and it could not be downloaded ({'; '.join(reasons)}); put {', '.join(self.md5)} "
            f"into {path.parent}, unpacked or as .gz, or set DATA_DIR to the folder of {self.folder}/raw"
        )


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
    from torchvision import datasets  # slow to import; only needed for downloads

    mirrors: list[str] = getattr(datasets, torchvision_class).mirrors
    return mirrors
