"""HAR: 10,299 windows of smartphone sensors worn at the waist by 30 people, labeled with one of six activities.

A window is 128 steps (2.56 s) of nine signals, ``x[m, c, t]`` channel c at time t: body acceleration, angular velocity
and total acceleration, along x, y and z. The authors' 561 features per window are an option.
The natural clients are the people. The official split is by person, 21 for training and 9 for test.

Consecutive windows overlap by half. Partitioners draw test windows at random, so about 90 % of them share at least 64
steps with training windows: a client's test accuracy is likely higher than on a new recording of that person. The
common test set is of other people and shares no step with training.
"""

import io
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import Pool, Progress
from engine.datasets.npz import labels, read_arrays
from engine.datasets.official import OfficialOptions, Part, official_pool

CLASS_NAMES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
CHANNELS = tuple(f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
STEPS, NUM_FEATURES = 128, 561
PARTS = ("train", "test")
OFFICIAL, NPZ = "UCI HAR Dataset", "har"  # folders in DATA_DIR
WITHIN_CHANNELS = (0, 2)  # axes to standardize over: windows and time
OVERLAP = "consecutive windows of a person overlap by half"


class HarOptions(OfficialOptions):
    advanced: ClassVar[tuple[str, ...]] = (*OfficialOptions.advanced, "features")

    features: Literal["inertial", "engineered"] = Field(
        "inertial",
        title="Features",
        description="inertial: the nine signals, 9 x 128; engineered: the 561 features of the official release. The "
        "windows of both overlap by half.",
    )


@DATASETS.register(
    "har",
    title="Human activity (UCI HAR)",
    short="HAR",
    paper="Anguita, Ghio, Oneto, Parra, Reyes-Ortiz. A Public Domain Dataset for Human Activity Recognition Using "
    "Smartphones. ESANN 2013.",
)
@dataclass(frozen=True)
class Har:
    options: HarOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{OFFICIAL}/*/*", f"{OFFICIAL}/*/Inertial Signals/*", f"{NPZ}/*")

    def present(self, data_dir: Path) -> bool:
        return self._reader(data_dir) is not None

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        read = self._reader(data_dir)
        if read is None:
            raise DataUnavailable(_what_to_do(data_dir, self.options.features))
        train, test = (read(data_dir, part) for part in PARTS)
        axis = WITHIN_CHANNELS if self.options.features == "inertial" else None
        return replace(official_pool(train, test, self.options, CLASS_NAMES, axis=axis), overlap=OVERLAP)

    def _reader(self, data_dir: Path) -> Callable[[Path, str], Part] | None:
        """Loads the release that exists, preferably the official one."""
        if os.path.isdir(data_dir / OFFICIAL):
            return official_signals if self.options.features == "inertial" else official_features
        has_arrays = all(os.path.isfile(_npz_path(data_dir, part)) for part in PARTS)
        return signals_of_npz if has_arrays and self.options.features == "inertial" else None


def signals_of_npz(data_dir: Path, part: str) -> Part:
    """Loads from ``har/har_inertial_<part>.npz``."""
    path = _npz_path(data_dir, part)
    try:
        arrays = read_arrays(path, {"X": (None, len(CHANNELS), STEPS), "y": (None,), "subject": (None,)})
        return _part(arrays["X"], arrays["y"], arrays["subject"])
    except ValueError as error:
        raise DataUnavailable(
            f"{path}: {error}. Expected: X [n, 9, 128] float32, y [n] in 0..5 and subject [n], saved with numpy.savez"
        ) from error


def official_signals(data_dir: Path, part: str) -> Part:
    """Loads from the nine text files of ``Inertial Signals``, one per channel."""
    folder = data_dir / OFFICIAL / part
    channels = [_table(folder / "Inertial Signals" / f"{name}_{part}.txt", STEPS) for name in CHANNELS]
    return _official(folder, part, channels, stacked=lambda found: np.stack(found, axis=1))


def official_features(data_dir: Path, part: str) -> Part:
    """Loads from ``X_<part>.txt``."""
    folder = data_dir / OFFICIAL / part
    return _official(folder, part, [_table(folder / f"X_{part}.txt", NUM_FEATURES)], stacked=lambda found: found[0])


def _official(
    folder: Path, part: str, tables: list[np.ndarray], stacked: Callable[[list[np.ndarray]], np.ndarray]
) -> Part:
    y, subject = (_table(folder / f"{name}_{part}.txt", 1)[:, 0].astype(np.int64) for name in ("y", "subject"))
    if len({len(rows) for rows in (*tables, y, subject)}) > 1:
        raise DataUnavailable(
            f"{folder}: different numbers of lines, {', '.join(str(len(rows)) for rows in (*tables, y, subject))}"
            "; unpack the official archive again"
        )
    try:
        return _part(stacked(tables), y - 1, subject)
    except ValueError as error:
        raise DataUnavailable(f"{folder / f'y_{part}.txt'}: {error}; unpack the official archive again") from error


def _part(x: np.ndarray, y: np.ndarray, subject: np.ndarray) -> Part:
    """Raises ValueError with the reason."""
    if x.dtype.kind != "f" or not np.isfinite(x).all():
        raise ValueError(f"X has dtype {x.dtype} or values that are not finite")
    if subject.shape != y.shape or subject.dtype.kind not in "iu":
        raise ValueError(f"subject has shape {list(subject.shape)} and dtype {subject.dtype}, must be [windows]")
    return Part(np.ascontiguousarray(x, np.float32), labels(y, len(x), len(CLASS_NAMES)), subject)


def _table(path: Path, columns: int) -> np.ndarray:
    """[lines, columns] float32. Raises DataUnavailable."""
    try:
        text = path.read_text(encoding="ascii")
        if not text.strip():
            raise ValueError("it is empty")
        table = np.loadtxt(io.StringIO(text), np.float32, ndmin=2)
    except (OSError, ValueError) as error:
        raise DataUnavailable(f"{path}: cannot be read ({error}); unpack the official archive again") from error
    if table.shape[1:] != (columns,):
        raise DataUnavailable(
            f"{path}: has {list(table.shape)} values, not [lines, {columns}]; unpack the official archive again"
        )
    return table


def _npz_path(data_dir: Path, part: str) -> Path:
    return data_dir / NPZ / f"har_inertial_{part}.npz"


def _what_to_do(data_dir: Path, features: str) -> str:
    absent = data_dir / OFFICIAL
    official = f"unpack the official archive of UCI to create {absent / 'train'}"
    if features == "engineered":
        return f"features=engineered: there is no {absent}; {official}, or use features=inertial"
    arrays = " and ".join(str(_npz_path(data_dir, part)) for part in PARTS)
    return f"there is no {absent}, nor {arrays}; {official}, or add these two files, or set DATA_DIR"
