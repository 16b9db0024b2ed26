"""Custom: the user's own samples, from an NPZ file without pickles, a table (CSV, Parquet) or a folder of images.

    NPZ      arrays x [n, ...], y [n], optional client [n], optional split [n] (0 train, 1 test)
    table    one row a sample: a label column, optionally a client column, all other columns numeric features
    folder   one folder a class with images of one size

Pixels of images are scaled to [0, 1], other values taken as they are, unless ``standardize``. Labels and clients may be
any numbers or strings: they are numbered in sorted order. A file is data from outside: nothing in it is trusted or
executed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from pyarrow import parquet
from pydantic import Field

from engine.datasets import Pool, Progress, standardize
from engine.datasets.image_folder import read_image_folder
from engine.datasets.npz import MAX_BYTES, read_npz
from engine.errors import DataUnavailable, suggestion
from engine.registry import DATASETS, Options

FOLDER = "folder"
EXPECTED = {
    ".npz": "arrays x [n, ...], y [n], optional client [n] and split [n], saved with numpy.savez",
    ".csv": "a header line, a label column, numeric columns, optionally a client column",
    ".parquet": "a label column, numeric columns, optionally a client column",
    FOLDER: "one folder a class, with images of one size",
}


class CustomOptions(Options):
    path: str = Field(title="File", min_length=1,
                      description="NPZ, CSV or Parquet file, or a folder of images with one folder a class: absolute, "
                                  "below DATA_DIR or below the current folder.")
    label: str = Field("label", title="Label column", description="Column of a table that holds the class.")
    client: str | None = Field(
        None, title="Client column",
        description="Column of a table that says whose sample it is; if not given, a column named client is used.")
    standardize: bool = Field(
        False, title="Standardize",
        description="Give every feature (of images: all pixels together) mean 0 and standard deviation 1, over the "
                    "training samples of a given split, else over all samples, later test samples included.")


@DATASETS.register("custom", title="Own data", paper="The user's own file")
@dataclass(frozen=True)
class Custom:
    options: CustomOptions
    needs_download: ClassVar[bool] = False

    def present(self, data_dir: Path) -> bool:
        return any(os.path.exists(path) for path in self._candidates(data_dir))

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable with what the file should contain."""
        path = self._find(data_dir)
        if _kind(path) == FOLDER:
            return checked_pool(_read_folder(path, progress), path, self.options.standardize, scale=1 / 255)
        arrays = _read_npz(path) if _kind(path) == ".npz" else self._read_table(path)
        return checked_pool(arrays, path, self.options.standardize)

    def _candidates(self, data_dir: Path) -> tuple[Path, ...]:
        given = Path(os.path.expanduser(self.options.path))  # os.path: unreadable and absurd paths are just not there
        return (given,) if given.is_absolute() else (data_dir / given, given)

    def _find(self, data_dir: Path) -> Path:
        candidates = self._candidates(data_dir)
        path = next((path for path in candidates if os.path.exists(path)), None)
        if path is None:
            raise DataUnavailable(f"there is no {' or '.join(str(path) for path in candidates)}; give an absolute "
                                  f"path, or put the file into DATA_DIR ({data_dir})")
        if _kind(path) not in EXPECTED:
            raise DataUnavailable(f"{path}: cannot read files that end in {path.suffix!r}; "
                                  f"known: {', '.join(EXPECTED)}")
        if not (path.is_file() or path.is_dir()):  # reading a pipe or a device may never end
            raise _unusable(path, "it is a pipe or a device, not a regular file")
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise _unusable(path, f"it has {path.stat().st_size:,} bytes, at most {MAX_BYTES:,} are read")
        return path

    def _read_table(self, path: Path) -> dict[str, np.ndarray]:
        try:
            table = pd.read_csv(path, low_memory=False) if _kind(path) == ".csv" else _read_parquet(path)
        except (OSError, ValueError, NotImplementedError) as error:  # parsing errors are ValueErrors
            raise _unusable(path, str(error)) from error
        if table.empty:
            raise _unusable(path, "it has no rows")
        table.columns = table.columns.map(str)
        label, client = self.options.label, self.options.client or "client"
        for option, column in (("label", label), ("client", self.options.client)):
            if column is not None and column not in table:
                raise _unusable(path, f"it has no column {column!r} ({option}={column})"
                                      f"{suggestion(column, table.columns)}; columns: {', '.join(table.columns[:20])}")
        features = table.drop(columns=[label, client], errors="ignore")
        texts = features.select_dtypes(exclude=["number", "bool"]).columns
        if len(texts):
            raise _unusable(path, f"columns {', '.join(texts[:20])} are not numeric; encode or remove them")
        columns = {"y": table[label], **({"client": table[client]} if client in table else {})}
        return {"x": features.to_numpy(np.float64), **{name: _values(column) for name, column in columns.items()}}


def checked_pool(arrays: dict[str, np.ndarray], path: Path, is_standardized: bool, scale: float = 1.0) -> Pool:
    """The pool of ``arrays``, after every check that keeps a bad file from becoming a strange result."""
    for name in ("x", "y"):
        if name not in arrays:
            raise _unusable(path, f"it has no array {name}, only {', '.join(arrays) or 'nothing'}")
    x = _features(arrays["x"], path)
    for name, values in arrays.items():
        if name != "x" and values.shape != (len(x),):
            raise _unusable(path, f"{name} has shape {list(values.shape)} and x has {len(x)} samples; expected "
                                  f"{name} of shape [{len(x)}]")
    names, y = _numbered("y", arrays["y"], path)
    if len(names) < 2:
        raise _unusable(path, f"y holds the single class {names[0]}; at least two are needed")
    client = _numbered("client", arrays["client"], path)[1] if "client" in arrays else None
    split = _split(arrays["split"], path) if "split" in arrays else None
    if is_standardized:
        x, scale = standardize(x, x if split is None else x[split == 0]), 1.0
    return Pool(x, y, num_classes=len(names), scale=scale, client=client, split=split, class_names=names)


def _kind(path: Path) -> str:
    return FOLDER if path.is_dir() else path.suffix.lower()


def _read_folder(path: Path, progress: Progress | None) -> dict[str, np.ndarray]:
    try:
        x, y = read_image_folder(path, MAX_BYTES, progress)
    except ValueError as error:
        raise _unusable(path, str(error)) from error
    return {"x": x, "y": y}


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(path, ("x", "y", "client", "split"), MAX_BYTES)
    except ValueError as error:
        raise _unusable(path, str(error)) from error


def _read_parquet(path: Path) -> pd.DataFrame:
    """Raises ValueError where the values, which a small file can hold very many of, would not fit in memory."""
    metadata = parquet.read_metadata(path)
    unpacked = 8 * metadata.num_rows * metadata.num_columns
    if unpacked > MAX_BYTES:
        raise ValueError(f"it unpacks to {unpacked:,} bytes, at most {MAX_BYTES:,} are read")
    return pd.read_parquet(path)


def _features(x: np.ndarray, path: Path) -> np.ndarray:
    """As they are where float32, float64 or uint8 hold them; other numbers become the smallest float that does."""
    if x.dtype.kind not in "buif" or x.dtype.itemsize > 8:
        raise _unusable(path, f"x has dtype {x.dtype}; expected integers or floats")
    if x.ndim < 2 or 0 in x.shape:
        raise _unusable(path, f"x has shape {list(x.shape)}; expected [samples, features, ...], none of them 0")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise _unusable(path, f"{np.count_nonzero(~np.isfinite(x)):,} values of x are NaN or infinite; "
                              "fill or remove those samples")
    if x.dtype in (np.uint8, np.float32, np.float64):
        return np.ascontiguousarray(x)
    return x.astype(np.float32 if x.dtype.itemsize <= 2 else np.float64)


def _numbered(name: str, values: np.ndarray, path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The distinct values as text, sorted, and for each sample the number of its value."""
    if values.dtype.kind == "f":
        if not ((np.abs(values) < 2**63) & (values == np.round(values))).all():  # not finite is not less either
            raise _unusable(path, f"{name} holds values that are missing or not whole numbers; expected classes "
                                  "or clients as whole numbers or text")
        values = values.astype(np.int64)
    if values.dtype.kind not in "biuU":
        raise _unusable(path, f"{name} has dtype {values.dtype}; expected whole numbers or text")
    distinct, numbers = np.unique(values, return_inverse=True)
    return tuple(str(value) for value in distinct), numbers.reshape(-1).astype(np.int64)


def _split(split: np.ndarray, path: Path) -> np.ndarray:
    if split.dtype.kind not in "biuf" or not np.isin(split, (0, 1)).all():
        raise _unusable(path, "split holds values other than 0 (train) and 1 (test)")
    return split.astype(np.int64)


def _values(column: pd.Series) -> np.ndarray:
    """Numbers as they are, anything else as text; what is missing as NaN."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64) if column.isna().any() else column.to_numpy()
    if column.isna().any():
        return np.full(len(column), np.nan)
    return column.astype(str).to_numpy(dtype=np.str_)


def _unusable(path: Path, reason: str) -> DataUnavailable:
    return DataUnavailable(f"{path}: {reason}. Expected: {EXPECTED[_kind(path)]}")
