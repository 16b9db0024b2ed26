"""Reads CIFAR-10 and CIFAR-100: torchvision's folder or archive, downloaded if missing, or one NPZ file.

The official files are pickles. torchvision opens them only after verifying its checksums; files with other content are
refused without opening them.
"""

import io
import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.errors import DataUnavailable
from engine.datasets import Pool, Progress
from engine.datasets.download import FAILED, fetch, md5_of, save
from engine.datasets.npz import images_and_labels
from engine.datasets.official import OfficialOptions, Part, official_pool

SIDE = 32
NPZ_ARRAYS = "x_train [n, 32, 32, 3] uint8, y_train [n], x_test and y_test"


@dataclass(frozen=True)
class CifarFiles:
    """One of the two data sets: its files in DATA_DIR; torchvision's class has checksums and URL."""

    torchvision_class: str
    folder: str
    files: tuple[str, ...]  # in ``folder``
    archive: str
    npz: str

    @property
    def patterns(self) -> tuple[str, ...]:
        return f"{self.folder}/*", self.archive, self.npz

    def present(self, data_dir: Path) -> bool:
        return self._is_unpacked(data_dir) or any(os.path.isfile(data_dir / f) for f in (self.npz, self.archive))

    def load(
        self, data_dir: Path, options: OfficialOptions, class_names: tuple[str, ...], progress: Progress | None = None
    ) -> Pool:
        """Raises DataUnavailable if a file is corrupt, or missing and not downloadable."""
        if os.path.isfile(data_dir / self.npz) and not self._is_unpacked(data_dir):
            train, test = (_part_of_npz(data_dir / self.npz, part, len(class_names)) for part in ("train", "test"))
        else:
            if not self._is_unpacked(data_dir):
                self._unpack(data_dir, progress)
            train, test = (self._official_part(data_dir, is_train) for is_train in (True, False))
        return official_pool(train, test, options, class_names, scale=1 / 255)

    def _is_unpacked(self, data_dir: Path) -> bool:
        return all(os.path.isfile(data_dir / self.folder / name) for name in self.files)

    def _official_part(self, data_dir: Path, is_train: bool) -> Part:
        try:
            found = self._torchvision()(data_dir, train=is_train, download=False)
        except RuntimeError as error:  # checksum mismatch; no pickle was opened
            raise self._corrupt(data_dir) from error
        return Part(_channels_first(found.data), np.array(found.targets, np.int64))

    def _corrupt(self, data_dir: Path) -> DataUnavailable:
        official = self._torchvision()
        md5 = dict([*official.train_list, *official.test_list, (official.meta["filename"], official.meta["md5"])])
        bad = [name for name in self.files if md5_of((data_dir / self.folder / name).read_bytes()) != md5[name]]
        return DataUnavailable(
            f"{data_dir / self.folder}: {', '.join(bad)} is corrupt or not the official file; "
            "delete it to have it downloaded again"
        )

    def _unpack(self, data_dir: Path, progress: Progress | None) -> None:
        """Unpacks the official files, from the archive next to their folder or from its download."""
        path, expected = data_dir / self.archive, self._torchvision().tgz_md5
        is_there = path.is_file()
        content = path.read_bytes() if is_there else self._download(data_dir, progress)
        if md5_of(content) != expected:
            origin, advice = (path, "delete it") if is_there else (self._torchvision().url, "try again")
            raise DataUnavailable(
                f"{origin} is corrupt or not the official file (md5 {md5_of(content)}, expected {expected}); "
                f"{advice} to have it downloaded again, or put {self.npz} ({NPZ_ARRAYS}) into {data_dir}"
            )
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for name in self.files:
                    member = archive.extractfile(f"{self.folder}/{name}")
                    assert member is not None  # guaranteed by the checksum
                    save(data_dir / self.folder / name, member.read())
        except (OSError, KeyError, tarfile.TarError, zlib.error) as error:
            raise DataUnavailable(f"cannot unpack {path} into {data_dir}: {error}") from error

    def _download(self, data_dir: Path, progress: Progress | None) -> bytes:
        try:
            return fetch(self._torchvision().url, self.archive, progress)
        except FAILED as error:
            raise DataUnavailable(
                f"there is no {data_dir / self.folder}, and {self.archive} could not be downloaded "
                f"({self._torchvision().url}: {error}); put {self.archive}, the unpacked {self.folder}, or {self.npz} "
                f"({NPZ_ARRAYS}) into {data_dir}, or set DATA_DIR to its folder"
            ) from error

    def _torchvision(self) -> Any:
        from torchvision import datasets  # slow to import

        return getattr(datasets, self.torchvision_class)


def _part_of_npz(path: Path, part: str, num_classes: int) -> Part:
    try:
        return Part(*images_and_labels(path, f"x_{part}", f"y_{part}", (SIDE, SIDE, 3), num_classes))
    except ValueError as error:
        raise DataUnavailable(f"{path}: {error}. Expected: {NPZ_ARRAYS}, saved with numpy.savez") from error


def _channels_first(images: np.ndarray) -> np.ndarray:
    """[M, 32, 32, 3] -> [M, 3, 32, 32]"""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
