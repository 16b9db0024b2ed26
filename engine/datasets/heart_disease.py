"""Heart disease: 740 patients of four hospitals, with or without heart disease. The hospitals are the clients.

Read from ``processed.cleveland.data`` and so on, as published by UCI, in ``DATA_DIR/heart_disease``. Features and
patients are those of FLamby's Fed-Heart-Disease (Ogier du Terrail et al., NeurIPS 2022,
https://arxiv.org/abs/2210.04620): three attributes that are often missing are left out, then patients with missing
values (303, 261, 46 and 130 remain), and the kind of chest pain and the resting ECG are encoded by indicators of all
values but the first.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress, standardize
from engine.datasets.domains import domain_pool
from engine.datasets.official import Part

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
CLASS_NAMES = ("no disease", "disease")
FOLDER = "heart_disease"
COLUMNS = 14
QUANTITIES = (0, 1, 3, 4, 5, 7, 8, 9)  # age, sex, resting blood pressure, cholesterol, ...; 10 to 12 are left out
CATEGORIES = {2: (1, 2, 3, 4), 6: (0, 1, 2)}  # kind of chest pain, resting ECG: column and its values
DIAGNOSIS = 13  # 0: none, 1 to 4: degrees of disease


class HeartDiseaseOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("standardize",)

    standardize: Literal["pool", "hospital", "none"] = Field(
        "pool",
        title="Standardize",
        description="Subtract the mean of each feature and divide by its standard deviation: over all patients, or "
        "those of the hospital, including later test samples.",
    )


@DATASETS.register(
    "heart_disease",
    title="Heart disease (4 hospitals)",
    short="Heart disease",
    paper="Janosi, Steinbrunn, Pfisterer, Detrano. Heart Disease. UCI Repository, 1988; features after FLamby, "
    "NeurIPS 2022.",
)
@dataclass(frozen=True)
class HeartDisease:
    options: HeartDiseaseOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}/*",)

    def present(self, data_dir: Path) -> bool:
        return all(os.path.isfile(_path(data_dir, hospital)) for hospital in HOSPITALS)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        found = {hospital: read_hospital(_path(data_dir, hospital)) for hospital in HOSPITALS}
        everyone = np.concatenate([part.x for part in found.values()])
        scaled: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "pool": lambda x: standardize(x, everyone),
            "hospital": lambda x: standardize(x, x),
            "none": lambda x: x,
        }
        by = scaled[self.options.standardize]
        return domain_pool({h: Part(by(part.x).astype(np.float32), part.y) for h, part in found.items()}, CLASS_NAMES)


def read_hospital(path: Path) -> Part:
    """The patients of one file without missing values, [n, 13] float64. Raises DataUnavailable."""
    if not os.path.isfile(path):
        raise DataUnavailable(
            f"there is no {path}; put UCI's processed.<hospital>.data of {', '.join(HOSPITALS)} into {path.parent}, "
            "or set DATA_DIR"
        )
    try:
        rows = [line.split(",") for line in path.read_text(encoding="ascii").splitlines() if line.strip()]
        if not rows or any(len(row) != COLUMNS for row in rows):
            raise ValueError(f"each line must have {COLUMNS} values, separated by commas")
        table = np.array([[np.nan if value.strip() == "?" else float(value) for value in row] for row in rows])
        kept = table[np.isfinite(table[:, [*QUANTITIES, *CATEGORIES, DIAGNOSIS]]).all(axis=1)]
        if not len(kept):
            raise ValueError("every patient has a missing value")
        for column, values in CATEGORIES.items():
            if strange := set(kept[:, column].tolist()) - set(values):
                raise ValueError(f"column {column + 1} is {min(strange):g}, must be {values[0]} to {values[-1]}")
        if (kept[:, DIAGNOSIS] < 0).any():
            raise ValueError("a diagnosis is negative, must be 0 to 4")
    except (OSError, ValueError) as error:
        raise DataUnavailable(f"{path}: {error}; copy the file of UCI again") from error
    indicators = [kept[:, column] == value for column, values in CATEGORIES.items() for value in values[1:]]
    x = np.column_stack([kept[:, list(QUANTITIES)], *indicators])
    return Part(x, (kept[:, DIAGNOSIS] > 0).astype(np.int64))


def _path(data_dir: Path, hospital: str) -> Path:
    return data_dir / FOLDER / f"processed.{hospital}.data"
