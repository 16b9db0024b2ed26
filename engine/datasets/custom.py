"""Custom: the user's own samples, from an NPZ file without pickles, a table (CSV, Parquet) or a folder of images.

    NPZ      arrays x [n, ...], y [n], optional client [n], optional split [n] (0 train, 1 test)
    table    one row per sample: a label column, optionally a client column, all other columns numeric features
    folder   one folder per class, with images of equal size

Images of an NPZ file are [n, channels, height, width], or [n, height, width] if they are gray. Pixels, which are uint8
values in at least two dimensions per sample, are scaled to [0, 1]; other values are used as they are, unless
``standardize``. Labels and clients may be any numbers or strings; they are numbered in sorted order. Files are
untrusted: everything is validated, nothing is executed.
"""

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, Options
from engine.core.run_json import MAX_NAME
from engine.datasets import Pool, Progress, standardize, standardized_bytes
from engine.datasets.image_folder import image_folder_bytes, read_image_folder
from engine.datasets.npz import BROKEN_ARCHIVE, MAX_BYTES, npz_bytes, read_npz
from engine.datasets.signatures import mismatch
from engine.datasets.table import BROKEN_TABLE, Roles, column_names, csv_bytes, parquet_bytes, read_csv, read_parquet

FOLDER = "folder"
MAX_CLASSES = 10_000
LARGEST_STANDARDIZED = 1e150  # the sum of the squares of values beyond it may be infinite
CHANNELS = (1, 3, 4)  # of gray images, of color, and of color with transparency
NPZ_ARRAYS = ("x", "y", "client", "split")
MEMORY = {".npz": npz_bytes, ".csv": csv_bytes, ".parquet": parquet_bytes, FOLDER: image_folder_bytes}
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")  # null characters, and surrogates, which UTF-8 cannot encode
EXPECTED = {
    ".npz": "arrays x [n, ...] (images [n, channels, height, width]), y [n], optional client [n] and split [n], saved "
    "with numpy.savez",
    ".csv": "a header line, a label column, numeric columns, optionally a client column",
    ".parquet": "a label column, numeric columns, optionally a client column",
    FOLDER: "one folder per class, with images of equal size",
}


class CustomOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("standardize",)

    path: str = Field(
        title="File",
        min_length=1,
        description="NPZ, CSV or Parquet file, or a folder of images with one folder per class. Images in an NPZ file "
        "are [n, channels, height, width]. In the app: an upload, or a path below DATA_DIR. On the command line and in "
        "Python also an absolute path, or one below the current folder.",
    )
    label: str = Field("label", title="Label column", description="Column of a table with the class.")
    client: str | None = Field(
        None,
        title="Client column",
        description="Column of a table with the client; by default a column named client, if there is one.",
    )
    standardize: bool = Field(
        False,
        title="Standardize",
        description="Scale every feature (for images, all pixels together) to mean 0 and standard deviation 1, over "
        "the training samples if the data has a split, otherwise over all samples, including later test samples.",
    )


@DATASETS.register("custom", title="Own data", short="Your own data", paper="The user's own file")
@dataclass(frozen=True)
class Custom:
    options: CustomOptions
    needs_download: ClassVar[bool] = False

    @property
    def files(self) -> tuple[str, ...]:
        """The file, or the folder and its class folders, in DATA_DIR or in the current folder."""
        given = os.path.expanduser(self.options.path)
        places = [glob.escape(place) for place in (given, os.path.abspath(given))]
        return (*places, *(f"{place}/*" for place in places))

    def present(self, data_dir: Path) -> bool:
        return any(os.path.exists(path) for path in self._candidates(data_dir))

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable that says what the file must contain."""
        path = self._find(data_dir)
        try:
            return self._read(path, progress)
        except MemoryError:
            raise _unusable(path, "out of memory; use fewer rows or columns") from None
        except BROKEN_TABLE as error:
            raise _unusable(path, str(error)) from error

    def columns(self, data_dir: Path) -> tuple[str, ...] | None:
        """The columns of a table; None for other files and for those that cannot be read."""
        try:
            path = self._find(data_dir)
            return tuple(column_names(path)) if _kind(path) in (".csv", ".parquet") else None
        except (DataUnavailable, *BROKEN_TABLE):
            return None

    def memory(self, data_dir: Path) -> int:
        """Upper bound of the memory for reading, in bytes, without reading samples. Raises DataUnavailable."""
        path = self._find(data_dir)
        try:
            needed = MEMORY[_kind(path)](path)
        except (*BROKEN_TABLE, *BROKEN_ARCHIVE) as error:
            raise _unusable(path, str(error)) from error
        if not self.options.standardize:
            return needed
        return standardized_bytes(needed) if _kind(path) == FOLDER else 2 * needed

    def _candidates(self, data_dir: Path) -> tuple[Path, ...]:
        given = Path(os.path.expanduser(self.options.path))  # os.path: unreadable and invalid paths count as missing
        return (given,) if given.is_absolute() else (data_dir / given, given)

    def _find(self, data_dir: Path) -> Path:
        candidates = self._candidates(data_dir)
        path = next((path for path in candidates if os.path.exists(path)), None)
        if path is None:
            raise DataUnavailable(
                f"there is no {' or '.join(str(path) for path in candidates)}; give an absolute "
                f"path, or put the file into DATA_DIR ({data_dir})"
            )
        if _kind(path) not in EXPECTED:
            raise DataUnavailable(f"{path}: cannot read files ending in {path.suffix!r}; known: {', '.join(EXPECTED)}")
        if _kind(path) == FOLDER:
            return path
        if not path.is_file():  # reading a pipe or a device may never end
            raise _unusable(path, "it must be a regular file, not a pipe or device")
        if path.stat().st_size > MAX_BYTES:
            raise _unusable(path, f"it has {path.stat().st_size:,} bytes, at most {MAX_BYTES:,} are allowed")
        if reason := _mismatch(path):
            raise _unusable(path, reason)
        return path

    def _read(self, path: Path, progress: Progress | None) -> Pool:
        is_standardized = self.options.standardize
        if _kind(path) == FOLDER:
            x, y = read_image_folder(path, MAX_BYTES, progress)
            return checked_pool({"x": x, "y": y}, path, is_standardized)
        if _kind(path) == ".npz":
            return checked_pool(read_npz(path, NPZ_ARRAYS, MAX_BYTES), path, is_standardized)
        read = read_csv if _kind(path) == ".csv" else read_parquet
        table = read(path, Roles(self.options.label, self.options.client), MAX_BYTES)
        return checked_pool(table.arrays, path, is_standardized, names=table.names)


def checked_pool(
    arrays: dict[str, np.ndarray],
    path: Path,
    is_standardized: bool,
    names: Mapping[str, tuple[str, ...]] | None = None,
) -> Pool:
    """The pool of ``arrays``, after all checks of their shapes and values.

    ``names`` are the original values of ``y`` and ``client``, if those are numbered already.
    """
    for name in ("x", "y"):
        if name not in arrays:
            raise _unusable(path, f"array {name} is missing, it has only {', '.join(arrays) or 'nothing'}")
    x = _features(arrays["x"], path)
    for name, values in arrays.items():
        if name != "x" and values.shape != (len(x),):
            raise _unusable(
                path,
                f"{name} has shape {list(values.shape)} and x has {len(x)} samples; expected "
                f"{name} of shape [{len(x)}]",
            )
    known = names or {}
    classes, y = (known["y"], arrays["y"]) if "y" in known else _numbered("y", arrays["y"], path)
    if len(classes) < 2:
        raise _unusable(path, f"y has the single class {classes[0]}, must have at least two")
    if len(classes) > MAX_CLASSES:
        raise _unusable(
            path,
            f"y has {len(classes):,} different values, at most {MAX_CLASSES:,} classes are "
            "allowed; is it the class column?",
        )
    if bad := [name for name in classes if _UNSTORABLE.search(name)]:
        raise _unusable(path, f"y has the class {bad[0]!r}, with a character that cannot be stored; rename it")
    if long := [name for name in classes if len(name) > MAX_NAME]:
        raise _unusable(
            path,
            f"y has the class {long[0][:40]!r}..., a name of {len(long[0]):,} characters; at most {MAX_NAME} are "
            "allowed; use shorter names",
        )
    client = arrays.get("client")
    if client is not None and "client" not in known:
        client = _numbered("client", client, path)[1]
    split = _split(arrays["split"], path) if "split" in arrays else None
    scale = 1 / 255 if x.dtype == np.uint8 and x.ndim > 2 else 1.0
    if is_standardized:
        if (largest := max(-float(x.min()), float(x.max()))) > LARGEST_STANDARDIZED:
            raise _unusable(path, f"x has values up to ±{largest:g}, too large to standardize; divide them first")
        x, scale = standardize(x, x if split is None else x[split == 0]), 1.0
    return Pool(x, y, num_classes=len(classes), scale=scale, client=client, split=split, class_names=classes)


def _kind(path: Path) -> str:
    return FOLDER if path.is_dir() else path.suffix.lower()


def _mismatch(path: Path) -> str | None:
    try:
        return mismatch(path)
    except OSError as error:
        raise _unusable(path, f"it cannot be read ({error.strerror or error})") from error


def _features(x: np.ndarray, path: Path) -> np.ndarray:
    """Unchanged if float32, float64 or uint8; other numbers become the smallest float that can represent them."""
    if x.dtype.kind not in "buif" or x.dtype.itemsize > 8:
        raise _unusable(path, f"x has dtype {x.dtype}; expected integers or floats")
    if x.ndim < 2 or 0 in x.shape:
        raise _unusable(path, f"x has shape {list(x.shape)}; expected [samples, features, ...], none of them 0")
    if x.ndim == 4 and x.shape[3] in CHANNELS and x.shape[1] not in CHANNELS:
        raise _unusable(
            path,
            f"x has shape {list(x.shape)}, with the channels last; save it as np.moveaxis(x, -1, 1)",
        )
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = ~np.isfinite(x)
        at = np.unravel_index(int(np.argmax(bad)), x.shape)
        raise _unusable(
            path,
            f"x[{', '.join(map(str, at))}] is {x[at]} ({np.count_nonzero(bad):,} values of x are NaN "
            "or infinite); fill or remove those samples",
        )
    if x.dtype in (np.uint8, np.float32, np.float64):
        return np.ascontiguousarray(x)
    return x.astype(np.float32 if x.dtype.itemsize <= 2 else np.float64)


def _numbered(name: str, values: np.ndarray, path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The distinct values as strings, sorted, and for each sample the index of its value."""
    if values.dtype.kind == "f":
        is_whole = (np.abs(values) < 2**63) & (values == np.round(values))  # also excludes non-finite values
        if not is_whole.all():
            at = int(np.argmin(is_whole))
            raise _unusable(
                path,
                f"{name}[{at}] is {values[at]}; {name} has values that are missing or not whole "
                "numbers; expected whole numbers or text",
            )
        values = values.astype(np.int64)
    if values.dtype.kind not in "biuU":
        raise _unusable(path, f"{name} has dtype {values.dtype}; expected whole numbers or text")
    distinct, numbers = np.unique(values, return_inverse=True)
    return tuple(str(value) for value in distinct), numbers.reshape(-1).astype(np.int64)


def _split(split: np.ndarray, path: Path) -> np.ndarray:
    if split.dtype.kind not in "biuf" or not np.isin(split, (0, 1)).all():
        raise _unusable(path, "split has values other than 0 (train) and 1 (test)")
    if split.all():
        raise _unusable(path, "split has no 0 (train): all samples are for testing")
    return split.astype(np.int64)


def _unusable(path: Path, reason: str) -> DataUnavailable:
    return DataUnavailable(f"{path}: {reason}. Expected: {EXPECTED[_kind(path)]}")
