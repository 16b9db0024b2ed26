"""The data split of a run, in numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from engine.partitioners.measures import label_entropy

SIZES = {"train_sizes": "Training samples", "val_sizes": "Validation samples", "test_sizes": "Test samples"}


def numbers(partition: Mapping[str, Any]) -> pd.DataFrame:
    """[what, lowest, median, highest, mean, all]: over clients, and of all their samples together."""
    rows = []
    for key, what in SIZES.items():
        sizes = np.asarray(partition.get(key, ()), dtype=float)
        if sizes.any():
            rows.append(_row(what, sizes, sizes.sum()))
    counts = np.asarray(partition.get("class_counts", ()), dtype=float)
    if counts.size:
        together = counts.sum(axis=0)
        rows.append(_row("Classes held", (counts > 0).sum(axis=1), (together > 0).sum()))
        rows.append(_row("Label entropy, bits", label_entropy(counts), label_entropy(together[None])[0]))
    return pd.DataFrame(rows, columns=["what", "lowest", "median", "highest", "mean", "all"])


def _row(what: str, values: np.ndarray, together: float) -> dict[str, Any]:
    return {
        "what": what,
        "lowest": values.min(),
        "median": np.median(values),
        "highest": values.max(),
        "mean": values.mean(),
        "all": together,
    }
