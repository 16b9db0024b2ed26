"""Data sets with an official training and test part: the shared pool and the common test set."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.registry import Options
from engine.datasets import Pool, standardize


class OfficialOptions(Options):
    """Options of all data sets with an official test part."""

    advanced: ClassVar[tuple[str, ...]] = ("pool", "standardize", "common_test")

    pool: Literal["all", "train"] = Field(
        "all", title="Pool", description="all: official training and test samples merged; train: training samples only."
    )
    standardize: bool = Field(
        False,
        title="Standardize",
        description="Subtract the mean of the official training samples and divide by their standard deviation: over "
        "all pixels of images, for each channel of signals, for each feature of tables.",
    )
    common_test: bool = Field(
        False,
        title="Common test set",
        description="Also measure every model on the official test set; needs pool=train.",
    )

    @model_validator(mode="after")
    def _test_samples_are_not_trained_on(self) -> Self:
        if self.common_test and self.pool != "train":
            raise ValueError(
                f"common_test=true requires pool=train, not pool={self.pool}: clients would train on the "
                "common test samples"
            )
        return self


@dataclass(frozen=True, eq=False)
class Part:
    """The training or test part of a release."""

    x: np.ndarray  # [M, ...]
    y: np.ndarray  # [M] int64
    client: np.ndarray | None = None  # [M] owner of each sample, any integers


def official_bytes(pixels: int, options: OfficialOptions) -> int:
    """The memory for reading ``pixels`` bytes: the two parts, their union, and floats if standardized."""
    return pixels * (6 if options.standardize else 2)


def official_pool(
    train: Part,
    test: Part,
    options: OfficialOptions,
    class_names: tuple[str, ...],
    *,
    scale: float = 1.0,
    axis: int | tuple[int, ...] | None = None,
) -> Pool:
    """The pool for ``options``; ``axis`` are the axes that standardizing averages over."""
    x, y, client, x_test = train.x, train.y, train.client, test.x
    if options.pool == "all":
        x, y = np.concatenate([x, x_test]), np.concatenate([y, test.y])
        client = None if client is None or test.client is None else np.concatenate([client, test.client])
    if options.standardize:  # after merging, since pixels take a quarter of the memory of floats
        x, scale = standardize(x, train.x, axis), 1.0
        x_test = standardize(x_test, train.x, axis) if options.common_test else x_test
    if client is not None:
        client = np.unique(client, return_inverse=True)[1].astype(np.int64)  # 0..N-1 of the remaining clients
    return Pool(
        x,
        y,
        num_classes=len(class_names),
        scale=scale,
        client=client,
        class_names=class_names,
        common_test=(x_test, test.y) if options.common_test else None,
    )
