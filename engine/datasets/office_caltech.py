"""Office-Caltech-10: 2,533 images of ten objects from four sources, as 800 SURF features. The sources are the clients.

A sample is a histogram of 800 visual words, as published by Gong et al. for domain adaptation. Read from
``DATA_DIR/office_caltech/office_caltech10_surf.npz`` or from the authors' files ``<Domain>_SURF_L10.mat`` (``fts`` and
``labels``, 1..10) in the same folder.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress, standardize
from engine.datasets.domains import domain_pool
from engine.datasets.npz import BROKEN_ARCHIVE, labels, read_arrays
from engine.datasets.official import Part

DOMAINS = ("amazon", "caltech", "dslr", "webcam")
CLASS_NAMES = (
    "backpack",
    "bike",
    "calculator",
    "headphones",
    "keyboard",
    "laptop",
    "monitor",
    "mouse",
    "mug",
    "projector",
)
WORDS = 800
FOLDER, NPZ = "office_caltech", "office_caltech10_surf.npz"
MAT_NAMES = {"amazon": "amazon", "caltech": "Caltech10", "dslr": "dslr", "webcam": "webcam"}
NPZ_ARRAYS = f"x_<domain> [n, 800] counts and y_<domain> [n] in 0..9 for {', '.join(DOMAINS)}"


class OfficeCaltechOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("features",)

    features: Literal["standardized", "shares", "counts"] = Field(
        "standardized",
        title="Features",
        description="standardized: shares of the words, each with mean 0 and deviation 1 within a domain, including "
        "later test samples, as published; shares: they sum to 1 per image; counts: how often each word occurs.",
    )


@DATASETS.register(
    "office_caltech",
    title="Office-Caltech-10 (SURF features)",
    short="Office-Caltech",
    paper="Gong, Shi, Sha, Grauman. Geodesic Flow Kernel for Unsupervised Domain Adaptation. CVPR 2012.",
)
@dataclass(frozen=True)
class OfficeCaltech:
    options: OfficeCaltechOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}/*",)

    def present(self, data_dir: Path) -> bool:
        return _has_mat(data_dir) or os.path.isfile(data_dir / FOLDER / NPZ)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        home = data_dir / FOLDER
        if _has_mat(data_dir):
            found = {domain: _of_mat(_mat(home, domain)) for domain in DOMAINS}
        elif os.path.isfile(home / NPZ):
            found = _of_npz(home / NPZ)
        else:
            raise DataUnavailable(
                f"there is no {home / NPZ} ({NPZ_ARRAYS}), nor {_mat(home, DOMAINS[0])}; put it, or the authors' four "
                f"files, into {home}, or set DATA_DIR"
            )
        return domain_pool({d: Part(self._features(part.x), part.y) for d, part in found.items()}, CLASS_NAMES)

    def _features(self, counts: np.ndarray) -> np.ndarray:
        """[n, 800] float32 of one domain."""
        if self.options.features == "counts":
            return counts.astype(np.float32)
        shares = counts / np.maximum(counts.sum(1, keepdims=True, dtype=np.float64), 1)
        found = standardize(shares, shares) if self.options.features == "standardized" else shares
        return found.astype(np.float32)


def _has_mat(data_dir: Path) -> bool:
    return all(os.path.isfile(_mat(data_dir / FOLDER, domain)) for domain in DOMAINS)


def _mat(home: Path, domain: str) -> Path:
    return home / f"{MAT_NAMES[domain]}_SURF_L10.mat"


def _of_npz(path: Path) -> dict[str, Part]:
    shapes: dict[str, tuple[int | None, ...]] = {}
    for domain in DOMAINS:
        shapes |= {f"x_{domain}": (None, WORDS), f"y_{domain}": (None,)}
    try:
        arrays = read_arrays(path, shapes)
        return {d: _part(arrays[f"x_{d}"], arrays[f"y_{d}"], f"y_{d}") for d in DOMAINS}
    except ValueError as error:
        raise DataUnavailable(f"{path}: {error}. Expected: {NPZ_ARRAYS}, saved with numpy.savez") from error


def _of_mat(path: Path) -> Part:
    from scipy.io import loadmat  # slow to import
    from scipy.io.matlab import MatReadError

    try:
        arrays = loadmat(path, variable_names=["fts", "labels"])
        if not {"fts", "labels"} <= set(arrays):
            raise ValueError("it has no fts or no labels")
        x, y = arrays["fts"], arrays["labels"].ravel()
        if x.ndim != 2 or x.shape[1] != WORDS:
            raise ValueError(f"fts has shape {list(x.shape)}, must be [n, {WORDS}]")
        if y.dtype.kind not in "iuf":
            raise ValueError(f"labels have dtype {y.dtype}, must be numbers")
        return _part(x, np.rint(y).astype(np.int64) - 1, "labels - 1")
    except (*BROKEN_ARCHIVE, MatReadError) as error:  # NotImplementedError, a RuntimeError: MATLAB 7.3
        raise DataUnavailable(f"{path}: cannot be read ({error}); copy the authors' file again") from error


def _part(x: np.ndarray, y: np.ndarray, name: str) -> Part:
    """Raises ValueError with the reason."""
    if x.dtype.kind not in "iuf" or not np.isfinite(x).all() or x.min() < 0:
        raise ValueError(f"the counts have dtype {x.dtype} or values that are negative or not finite")
    return Part(x, labels(y, len(x), len(CLASS_NAMES), name))
