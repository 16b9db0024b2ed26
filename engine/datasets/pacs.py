"""PACS: 9,991 images of seven objects as photos, art paintings, cartoons and sketches. The domains are the clients.

Read from ``DATA_DIR/PACS/<domain>/<class>/<any name>.jpg`` or ``.png`` (227 x 227 pixels as published), or from
``DATA_DIR/pacs/pacs32.npz``, which has 32 x 32 pixels. Published accuracies are for networks that were pretrained on
larger images.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from PIL import Image
from pydantic import Field

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, Count
from engine.datasets import Pool, Progress
from engine.datasets.domains import DomainOptions, at_size, counts, domain_pool, drawn
from engine.datasets.image_folder import SUFFIXES, pixels
from engine.datasets.npz import images_and_labels
from engine.datasets.official import Part

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
SIZES = (2048, 2344, 1670, 3929)
CLASS_NAMES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
NPZ_SIDE = 32
FOLDERS = ("PACS", "pacs")  # in DATA_DIR, with a folder for each domain
NPZ = Path("pacs") / "pacs32.npz"
NPZ_ARRAYS = f"x_<domain> [n, 32, 32, 3] uint8 and y_<domain> [n] in 0..6 for {', '.join(DOMAINS)}"


class PacsOptions(DomainOptions):
    samples_per_domain: Count | Literal["all"] = Field(
        "all",
        title="Samples per domain",
        description="At most this many of each domain, at random, the same for all seeds; the smallest has 1,670.",
    )
    size: int = Field(
        NPZ_SIDE,
        ge=8,
        le=256,
        title="Size",
        description="Height and width of the images in pixels; sizes above 32 need the published images.",
    )


@DATASETS.register(
    "pacs",
    title="PACS (photo, art, cartoon, sketch)",
    short="PACS",
    paper="Li, Yang, Song, Hospedales. Deeper, Broader and Artier Domain Generalization. ICCV 2017.",
)
@dataclass(frozen=True)
class Pacs:
    options: PacsOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (*(f"{folder}/*/*" for folder in FOLDERS), str(NPZ))

    def present(self, data_dir: Path) -> bool:
        return _folder(data_dir) is not None or (os.path.isfile(data_dir / NPZ) and self.options.size <= NPZ_SIDE)

    def memory(self, data_dir: Path) -> int:
        used = sum(counts(SIZES, self.options.samples_per_domain))
        return 3 * (sum(SIZES) * NPZ_SIDE**2 + used * self.options.size**2 * (9 if self.options.standardize else 2))

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        folder = _folder(data_dir)
        if folder is not None:
            domains = self._from_images(folder, progress)
        elif self.present(data_dir):
            domains = self._from_npz(data_dir / NPZ)
        else:
            raise DataUnavailable(_what_to_do(data_dir, self.options.size))
        return domain_pool(domains, CLASS_NAMES, scale=1 / 255, standardized=self.options.standardize)

    def _from_images(self, folder: Path, progress: Progress | None) -> dict[str, Part]:
        """Reads the chosen images only."""
        found = {domain: _images(folder / domain) for domain in DOMAINS}
        chosen = self._rows({domain: len(images) for domain, images in found.items()})
        total, done, domains = sum(map(len, chosen.values())), 0, {}
        for domain, rows in chosen.items():
            x = np.empty((len(rows), 3, self.options.size, self.options.size), np.uint8)
            for i, row in enumerate(rows):
                x[i] = _image(found[domain][row][0], self.options.size)
                if progress is not None and done % 100 == 0:
                    progress("Reading images", done / total)
                done += 1
            domains[domain] = Part(x, np.array([found[domain][row][1] for row in rows], np.int64))
        return domains

    def _from_npz(self, path: Path) -> dict[str, Part]:
        shape = (NPZ_SIDE, NPZ_SIDE, 3)
        try:
            found = {d: images_and_labels(path, f"x_{d}", f"y_{d}", shape, len(CLASS_NAMES)) for d in DOMAINS}
        except ValueError as error:
            raise DataUnavailable(f"{path}: {error}. Expected: {NPZ_ARRAYS}, saved with numpy.savez") from error
        rows = self._rows({domain: len(y) for domain, (_, y) in found.items()})
        size = self.options.size
        return {d: Part(at_size(x[rows[d]], size, Image.Resampling.LANCZOS), y[rows[d]]) for d, (x, y) in found.items()}

    def _rows(self, sizes: dict[str, int]) -> dict[str, np.ndarray]:
        """The samples to use of each domain."""
        numbers = counts(list(sizes.values()), self.options.samples_per_domain)
        return {d: drawn(d, np.arange(sizes[d]), number) for d, number in zip(sizes, numbers, strict=True)}


def _folder(data_dir: Path) -> Path | None:
    folders = (data_dir / name for name in FOLDERS)
    return next((f for f in folders if all(os.path.isdir(f / domain) for domain in DOMAINS)), None)


def _images(domain: Path) -> list[tuple[Path, int]]:
    """The images of a domain with their classes. Raises DataUnavailable if a class has none."""
    found = [
        (path, y)
        for y, name in enumerate(CLASS_NAMES)
        for path in sorted((domain / name).glob("*"))
        if path.suffix.lower() in SUFFIXES
    ]
    if missing := [name for y, name in enumerate(CLASS_NAMES) if y not in {label for _, label in found}]:
        raise DataUnavailable(f"{domain / missing[0]} has no images; unpack the authors' archive again")
    return found


def _image(path: Path, size: int) -> np.ndarray:
    """[3, size, size]"""
    try:
        return at_size(pixels(path, str(path), "RGB")[None], size, Image.Resampling.LANCZOS)[0]
    except ValueError as error:
        raise DataUnavailable(f"{error}; unpack the authors' archive again") from error


def _what_to_do(data_dir: Path, size: int) -> str:
    example = data_dir / FOLDERS[0] / DOMAINS[0] / CLASS_NAMES[0]
    missing = f"there is no {example}"
    if os.path.isfile(data_dir / NPZ):
        return f"{missing} for size={size}; unpack the authors' archive there, or use size={NPZ_SIDE} or less"
    return (
        f"{missing}, nor {data_dir / NPZ} ({NPZ_ARRAYS}); unpack the authors' archive into "
        f"{data_dir / FOLDERS[0]}, or set DATA_DIR"
    )
